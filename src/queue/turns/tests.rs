use super::*;

const APART: Duration = Duration::from_millis(2);

/// Hears of one more release.
fn hear(rota: &mut Rota, now: Instant) -> Duration {
    let releases = rota.age - rota.heard_before + 1;
    rota.heard(u64::from(releases), now)
}

/// Releases that are heard, until it is this process's turn.
fn deferred(rota: &mut Rota, now: &mut Instant) -> u32 {
    let mut releases = 0;
    loop {
        releases += 1;
        *now += APART;
        if hear(rota, *now).is_zero() {
            return releases;
        }
    }
}

#[test]
fn a_turn_comes_after_those_of_all_others() {
    let (mut rota, mut now) = (Rota::default(), Instant::now());
    assert_eq!(deferred(&mut rota, &mut now), 1, "nothing is known at first");
    rota.granted();
    rota.pass(3, 5, APART, false);
    assert_eq!(deferred(&mut rota, &mut now), 4 * 3, "one early");
    assert_eq!(rota.ahead(), Duration::ZERO);
    rota.granted();
    assert_eq!(rota.ahead(), APART * 13);
}

#[test]
fn shorter_turns_of_others_are_learnt() {
    let (mut rota, mut now) = (Rota::default(), Instant::now());
    rota.pass(4, 5, APART, false);
    for _ in 0..4 {
        now += APART;
        hear(&mut rota, now);
    }
    assert!(!rota.ahead().is_zero());
    rota.waited();
    rota.granted();
    assert_eq!(deferred(&mut rota, &mut now), 3);
    // And forgotten, step by step; what else is granted in a turn makes no step.
    for age in 4..=16 {
        for _ in 0..4 {
            rota.granted();
        }
        assert_eq!(deferred(&mut rota, &mut now), age);
    }
    rota.granted();
    assert_eq!(deferred(&mut rota, &mut now), 16);
}

#[test]
fn others_are_given_a_chance_however_often_they_did_not_take_it() {
    let (mut rota, mut now) = (Rota::default(), Instant::now());
    for _ in 0..10 {
        rota.pass(2, 2, APART, false);
        assert!(!rota.ahead().is_zero());
        rota.waited();
        rota.granted();
    }
    rota.pass(2, 2, APART, false);
    assert_eq!(deferred(&mut rota, &mut now), 2);
}

#[test]
fn its_own_release_counts_whenever_it_was_heard() {
    for heard in [false, true] {
        let (mut rota, mut now) = (Rota::default(), Instant::now());
        rota.pass(2, 3, APART, heard);
        assert_eq!(deferred(&mut rota, &mut now), 4 - u32::from(heard));
    }
}

#[test]
fn nobody_waits_for_others_for_long() {
    let (mut rota, mut now) = (Rota::default(), Instant::now());
    rota.pass(u32::MAX, u32::MAX, Duration::MAX, false);
    for _ in 0..1000 {
        now += Duration::from_secs(10);
        assert!(hear(&mut rota, now) <= LONGEST);
        rota.refused();
    }
}
