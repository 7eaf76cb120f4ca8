use super::*;

#[test]
fn a_message_names_who_stands_against_it_and_how_many_more() {
    let objection = |node: usize| {
        let address = format!("10.0.0.{node}:1").into();
        (format!("m{node}").into(), Objection::Connected { address })
    };
    let error = |objections: usize| ResetError::Refused {
        objections: (0..objections).map(objection).collect(),
        labels: vec!["billing@host:1".into(), "other@host:2".into()],
    };
    assert_eq!(
        error(2).to_string(),
        "the charter stays as it is (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#reset): m0: a client is connected from 10.0.0.0:1; m1: a client is \
         connected from 10.0.0.1:1; clients have called themselves billing@host:1, other@host:2"
    );
    let text = error(100).to_string();
    assert!(text.contains("m11: ") && !text.contains("m12: "), "{text}");
    assert!(text.contains("; and 88 more; clients"), "{text}");
}

#[test]
fn what_could_not_be_put_back_is_named() {
    let by = Some("late@host:3".into());
    let longest = Duration::from_secs(600);
    let error = ResetError::PutBack {
        objections: vec![("m0".into(), Objection::Raised { longest, by })],
        labels: Vec::new(),
        missing: vec![("m1".into(), NodeError::Unavailable("refused".into()))],
    };
    assert_eq!(
        error.to_string(),
        "the charter was put back (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#reset), for something came in between: m0: somebody has stored a longest \
         lease of 10m, late@host:3; it could not be put back on m1: refused; agree upon it anew with \
         MastersBuilder::max_lease"
    );
}
