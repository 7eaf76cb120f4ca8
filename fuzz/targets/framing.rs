//! Where a reply ends: the same in pieces as at once, and the same as the client library's own parser finds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use multilock::fuzzing::first_reply;

/// Of a long input only some are tried.
const CUTS: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((value, length))) = first_reply(rest) {
        assert!((1..=rest.len()).contains(&length), "{length} of {}", rest.len());
        let reply = &rest[..length];
        assert_eq!(
            first_reply(reply),
            Ok(Some((value.clone(), length))),
            "what follows is no part of it"
        );
        let reference = redis::parse_redis_value(reply).expect("what is framed can be parsed");
        assert_eq!(value, reference);
        let step = length.div_ceil(CUTS);
        for cut in (0..length).step_by(step).chain([length - 1]) {
            assert_eq!(first_reply(&reply[..cut]), Ok(None), "{reply:?} cut at {cut}");
            assert!(
                redis::parse_redis_value(&reply[..cut]).is_err(),
                "{reply:?} is whole at {cut}"
            );
        }
        rest = &rest[length..];
    }
    // Only of lengths the parser takes more than is allowed, such as any negative one for a null.
    let reference = redis::parse_redis_value(rest);
    match first_reply(rest) {
        Err(why) if why.starts_with("no length") => {}
        _ => assert!(reference.is_err(), "a reply that is not seen: {rest:?}"),
    }
    // Without its last byte, an incomplete reply is still incomplete, and refused bytes are refused or incomplete.
    if let Some(cut) = rest.len().checked_sub(1) {
        let before = first_reply(&rest[..cut]);
        match first_reply(rest) {
            Ok(None) => assert_eq!(before, Ok(None)),
            Ok(Some(_)) => unreachable!("the loop ends at what is no reply"),
            Err(_) => assert!(!matches!(before, Ok(Some(_))), "{rest:?}"),
        }
    }
});
