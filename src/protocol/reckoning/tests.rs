use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn agreed(longest: u64, in_force: u64) -> Agreed {
    Agreed {
        longest: seconds(longest),
        in_force: seconds(in_force),
    }
}

fn reckoning(lease: u64, quarantine: Quarantine) -> Reckoning {
    let config = Config {
        lease: seconds(lease),
        quarantine,
        ..Config::default()
    };
    Reckoning::new(&config, 3)
}

#[test]
fn a_client_with_short_leases_reckons_with_those_that_need_no_charter() {
    let short = reckoning(10, Quarantine::Auto);
    assert_eq!(short.longest_lease(), seconds(30));
    assert_eq!(short.quarantine(), Duration::from_millis(31_302));
    let lowered = Config {
        lease: seconds(10),
        lease_without_charter: seconds(1),
        ..Config::default()
    };
    assert_eq!(Reckoning::new(&lowered, 3).longest_lease(), seconds(10));
}

#[test]
fn what_is_learnt_only_raises() {
    let reckoning = reckoning(60, Quarantine::For(seconds(100)));
    assert_eq!(reckoning.quarantine(), seconds(100));
    reckoning.learn(seconds(300));
    reckoning.learn(seconds(40));
    assert_eq!(reckoning.longest_lease(), seconds(300));
    assert_eq!(reckoning.quarantine(), Duration::from_millis(304_002));
    assert_eq!(reckoning.missing(0), Some(agreed(300, 0)));
}

#[test]
fn a_long_lease_is_in_force_once_every_master_has_stored_it() {
    let reckoning = reckoning(60, Quarantine::Auto);
    assert!(reckoning.allows(seconds(30)) && !reckoning.allows(seconds(60)));
    reckoning.stored(0, agreed(60, 0));
    reckoning.stored(1, agreed(300, 0));
    assert!(reckoning.is_confirmed(0, seconds(60)) && !reckoning.is_confirmed(2, seconds(60)));
    // Another is to be asked for what the first had stored.
    reckoning.out_of_sight(0);
    reckoning.stored(2, agreed(300, 0));
    assert!(!reckoning.allows(seconds(60)));
    reckoning.stored(0, agreed(60, 0));
    assert!(reckoning.allows(seconds(60)) && !reckoning.allows(seconds(61)));
    // Both are put where they are missing.
    assert_eq!(reckoning.missing(0), Some(agreed(300, 60)));
    assert_eq!(reckoning.longest_lease(), seconds(300));
}

#[test]
fn what_is_in_force_elsewhere_is_in_force() {
    let reckoning = reckoning(60, Quarantine::Auto);
    reckoning.stored(1, agreed(300, 60));
    assert!(reckoning.allows(seconds(60)) && !reckoning.allows(seconds(300)));
}

#[test]
fn masters_that_are_thrown_away_store_no_lease() {
    let reckoning = reckoning(300, Quarantine::Off);
    assert_eq!(reckoning.quarantine(), Duration::ZERO);
    assert_eq!(reckoning.outlived(), Duration::from_millis(304_002));
    assert!(reckoning.allows(seconds(300)));
    assert_eq!(reckoning.told(), MAX_LEASE);
    // They are asked once on each connection for the number of masters.
    assert_eq!(reckoning.missing(0), Some(Agreed::default()));
    reckoning.stored(0, Agreed::default());
    assert_eq!(reckoning.missing(0), None);
    reckoning.learn(seconds(600));
    assert_eq!(reckoning.missing(0), None);
    reckoning.out_of_sight(0);
    assert_eq!(reckoning.missing(0), Some(Agreed::default()));
}
