use super::*;

#[test]
fn sorted_and_each_once() {
    let names = Names::from(["b", "a", "b"]);
    assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(names, Names::from(vec!["a", "b"]));
}

#[test]
fn printed_and_counted_together() {
    let names = Names::from(["b", "a", "c"]);
    assert_eq!((names.len(), names.to_string()), (3, "a+b+c".to_owned()));
}

#[test]
fn some_names_lie_within_others_or_beside_them() {
    let of = |names: &[&str]| Names::from(names);
    let both = of(&["a", "b"]);
    for (other, within, beside) in [
        (both.clone(), true, false),
        (of(&["a", "b"]), true, false),
        (of(&["b"]), true, false),
        (of(&["b", "c"]), false, false),
        (of(&["c"]), false, true),
    ] {
        assert_eq!(both.contains_all(&other), within, "{other}");
        assert_eq!(both.overlaps(&other), !beside, "{other}");
    }
}

#[test]
fn made_of_what_people_have() {
    let one = [
        Names::from("a"),
        Names::from(&"a"),
        Names::from("a".to_owned()),
        Names::from(&"a".to_owned()),
        Names::from(Box::<str>::from("a")),
        Names::from(Arc::<str>::from("a")),
        Names::from(&Arc::<str>::from("a")),
        Names::from(Cow::from("a")),
    ];
    assert!(one.iter().all(|names| names.iter().eq(["a"])));
    let owned = vec!["b".to_owned(), "a".to_owned()];
    let many = [
        Names::from(["b", "a"]),
        Names::from(&["b", "a"]),
        Names::from(&["b", "a"][..]),
        Names::from(vec![Cow::from("b"), Cow::from("a")]),
        Names::from(&owned),
        Names::from(&owned[..]),
        Names::from([&owned[0], &owned[1]]),
        Names::from(vec![Arc::<str>::from("b"), Arc::<str>::from("a")]),
        owned.iter().collect(),
    ];
    assert!(many.iter().all(|names| names.iter().eq(["a", "b"])));
}

#[test]
fn names_that_look_like_our_own_keys_are_refused() {
    for name in [
        "multilock_set",
        "redisson_lock_token:{a}",
        "redisson_lock__channel:{a}",
    ] {
        let error = Names::from(["a", name]).check().expect_err("a key of ours");
        assert_eq!((error.field, error.value), ("name", format!("{name:?}")));
        assert!(
            error
                .allowed
                .contains("multilock_, redisson_lock__channel, redisson_lock_token")
        );
    }
    assert_eq!(Names::from(["multilock", "redisson_lock"]).check(), Ok(()));
}

#[test]
fn empty_and_endless_names_are_refused() {
    let message = |names: Names| names.check().map_err(|e| e.to_string());
    assert_eq!(message("a".into()), Ok(()));
    assert_eq!(
        message("".into()),
        Err("name: \"\" is not allowed; allowed: 1 to 4096 bytes".into())
    );
    assert_eq!(
        message("x".repeat(4097).into()),
        Err("name: a name of 4097 bytes is not allowed; allowed: 1 to 4096 bytes".into())
    );
    assert_eq!(message("x".repeat(4096).into()), Ok(()));
    let so_many = |names: u8| message((0..names).map(|n| n.to_string()).collect());
    for names in [0, 65, 66] {
        let expected = format!("names: {names} names is not allowed; allowed: 1 to 64 names");
        assert_eq!(so_many(names), Err(expected));
    }
    assert_eq!(so_many(64), Ok(()));
}
