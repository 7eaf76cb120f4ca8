use super::*;

fn charter(nodes: &[(&str, &str)]) -> Charter {
    let node = |(charter, masters): &(&str, &str)| {
        let told = match *charter {
            "?" => Err(NodeError::Unavailable("down".into())),
            charter => Ok(NodeCharter::parse(charter, masters)),
        };
        ("m".into(), told)
    };
    Charter {
        nodes: nodes.iter().map(node).collect(),
        free: Duration::from_secs(30),
    }
}

#[test]
fn what_stands_is_read_whoever_wrote_it() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let read = |text: &str| NodeCharter::parse(text, "3");
    let of = |longest, in_force, who: Option<&str>| NodeCharter {
        longest: minutes(longest),
        in_force: minutes(in_force),
        raised_by: who.map(Into::into),
        masters: Some(3),
    };
    assert_eq!(read("300000"), of(5, 0, None), "by hand");
    assert_eq!(read("300000 60000"), of(5, 1, None), "by an older client");
    assert_eq!(read("300000 60000 job@host:7"), of(5, 1, Some("job@host:7")));
    assert_eq!(
        read("300000 300000 the münchen job"),
        of(5, 5, Some("the münchen job"))
    );
    assert_eq!(read("300000 0 a\u{7}b"), of(5, 0, None), "no client's label");
    for nothing in ["", "soon", "-1 -1"] {
        assert_eq!(read(nothing), of(0, 0, None), "{nothing}");
    }
    assert_eq!(NodeCharter::parse("", ""), NodeCharter::default());
}

#[test]
fn masters_agree_where_all_of_them_tell_the_same() {
    let seconds = Duration::from_secs;
    let state = |nodes: &[_]| charter(nodes).state();
    assert_eq!(state(&[("", ""), ("", "3"), ("", "3")]), CharterState::Nothing);
    let old = ("60000 60000", "3");
    let new = ("60000 60000 a", "3");
    assert_eq!(
        state(&[old, new, new]),
        CharterState::InForce(seconds(60)),
        "whoever has stored it"
    );
    let pending = ("60000 40000 a", "3");
    let waits = CharterState::Pending {
        longest: seconds(60),
        in_force: seconds(40),
    };
    assert_eq!(state(&[pending; 3]), waits);
    for other in [pending, ("", "3"), ("60000 60000", "5")] {
        assert_eq!(state(&[new, other, new]), CharterState::Differs, "{other:?}");
        assert_eq!(
            state(&[new, ("?", ""), other]),
            CharterState::Differs,
            "{other:?}"
        );
    }
    assert_eq!(state(&[new, ("?", ""), new]), CharterState::Unknown);
    assert_eq!(state(&[("?", ""); 3]), CharterState::Unknown);
}
