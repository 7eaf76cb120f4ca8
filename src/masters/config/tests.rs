use super::*;

fn message(config: &Config) -> String {
    config.check(3).expect_err("must be refused").to_string()
}

#[test]
fn defaults_are_allowed() {
    assert_eq!(Config::default().check(5), Ok(()));
}

#[test]
fn every_option_outside_its_range_is_named() {
    let default = Config::default;
    assert_eq!(
        default().check(0).expect_err("no nodes").to_string(),
        "nodes: 0 is not allowed; allowed: 1 to 64 masters (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)"
    );
    assert_eq!(
        message(&Config {
            node_timeout: Duration::ZERO,
            ..default()
        }),
        "node_timeout: 0s is not allowed; allowed: 1ms to 14s 849ms"
    );
    // The default lease would be over before two node timeouts are.
    assert_eq!(
        message(&Config {
            node_timeout: Duration::from_millis(14_850),
            ..default()
        }),
        "node_timeout: 14s 850ms is not allowed; allowed: 1ms to 14s 849ms"
    );
    let longest = Config {
        node_timeout: Duration::from_millis(14_849),
        ..default()
    };
    assert_eq!(longest.check(3), Ok(()));
    assert_eq!(
        longest.checked_lease(longest.default_lease()),
        Ok(longest.default_lease())
    );
    assert_eq!(
        message(&Config {
            connect_timeout: Duration::MAX,
            ..default()
        })
        .split(" is")
        .nth(1),
        Some(" not allowed; allowed: 1ms to 1m")
    );
    assert_eq!(
        message(&Config {
            drift_factor: f64::NAN,
            ..default()
        }),
        "drift_factor: NaN is not allowed; allowed: 0.01 to 0.5"
    );
    assert_eq!(
        message(&Config {
            lease: Some(Duration::from_millis(100)),
            ..default()
        })
        .split("allowed: ")
        .nth(1)
        .map(|allowed| allowed.starts_with("104ms to ")),
        Some(true)
    );
    assert!(
        message(&Config {
            lease: Some(Duration::MAX),
            ..default()
        })
        .starts_with("lease: ")
    );
    assert!(
        message(&Config {
            for_tests: Some(Duration::from_millis(100)),
            ..default()
        })
        .starts_with("for_tests: 100ms is not allowed; allowed: 104ms to 1day")
    );
    assert_eq!(
        message(&Config {
            max_hold: Some(Duration::from_secs(29)),
            ..default()
        }),
        "max_hold: 29s is not allowed; allowed: 30s or more, the lease"
    );
}

#[test]
fn bounds_are_in_their_ranges() {
    let second = Duration::from_secs(1);
    let at_bounds = Config {
        drift_factor: 0.5,
        lease: Some(Duration::from_micros(10_000_900)),
        for_tests: Some(Duration::from_micros(30_000_900)),
        max_hold: Some(10 * second),
        connect_timeout: 60 * second,
        ..Config::default()
    };
    assert_eq!(at_bounds.check(64), Ok(()));
    assert!(at_bounds.check(65).is_err());
    // Masters count and record whole milliseconds.
    assert_eq!(at_bounds.default_lease(), 10 * second);
    assert_eq!(at_bounds.set(3).for_tests, Some(30 * second));
    let above = Config {
        drift_factor: 0.51,
        ..Config::default()
    };
    assert_eq!(
        message(&above),
        "drift_factor: 0.51 is not allowed; allowed: 0.01 to 0.5"
    );
}

/// The value is a millisecond less than the time for which a lease may be forgotten.
#[test]
fn a_quarantine_shorter_than_the_longest_lease_is_refused() {
    let config = Config {
        quarantine: Quarantine::For(Duration::from_millis(29_999)),
        ..Config::default()
    };
    assert!(message(&config).starts_with("quarantine: 29s 999ms is not allowed; allowed: 30s 302ms to "));
    let short = Config {
        lease: Some(Duration::from_secs(5)),
        ..config
    };
    assert!(
        message(&short).contains("allowed: 30s 302ms to "),
        "others may have longer ones"
    );
    let lowered = Config {
        for_tests: Some(Duration::from_secs(5)),
        ..short
    };
    assert_eq!(lowered.check(3), Ok(()));
}

#[test]
fn leases_are_bounded_by_the_longest_one() {
    let config = Config::default();
    let lease = Duration::from_micros(10_000_900);
    assert_eq!(config.checked_lease(lease), Ok(Duration::from_secs(10)));
    let error = config
        .checked_lease(Duration::from_secs(31))
        .expect_err("above the maximum");
    assert_eq!(
        error.to_string(),
        "lease: 31s is not allowed; allowed: 104ms to 30s; a hold is renewed for as long as it lives, and \
         max_hold bounds it"
    );
    let long = Config {
        lease: Some(Duration::from_secs(31)),
        ..config.clone()
    };
    assert_eq!(message(&long), error.to_string());
    let for_tests = |longest| Config {
        for_tests: Some(longest),
        ..config.clone()
    };
    let short = for_tests(Duration::from_secs(2));
    assert_eq!(short.check(3), Ok(()));
    assert_eq!(short.default_lease(), Duration::from_secs(2));
    assert!(short.checked_lease(Duration::from_secs(3)).is_err());
    assert_eq!(for_tests(Duration::from_secs(3600)).check(3), Ok(()));
    let min = config.check_within_validity("min_validity", Duration::from_secs(30), Duration::from_secs(30));
    assert_eq!(
        min.expect_err("never reached").to_string(),
        "min_validity: 30s is not allowed; allowed: less than 29s 698ms, the lease minus drift"
    );
}

#[test]
fn the_shortest_lease_leaves_room_for_two_deadlines() {
    for (timeout_ms, factor) in [(1, 0.0), (50, 0.01), (50, 0.5), (60_000, 0.08)] {
        let node_timeout = Duration::from_millis(timeout_ms);
        let config = Config {
            node_timeout,
            drift_factor: factor,
            ..Config::default()
        };
        let lease = config.shortest_lease();
        assert!(
            lease >= node_timeout * 2 + drift(lease, factor),
            "{timeout_ms} ms, {factor}"
        );
    }
}
