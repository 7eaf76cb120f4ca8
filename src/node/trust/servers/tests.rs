use std::time::Duration;

use super::*;
use crate::events::NodeEvents;
use crate::masters::config::Config;
use crate::protocol::lease_timing::LeaseTiming;
use crate::time::steps::Steps;

fn events(label: &Arc<str>) -> Arc<NodeEvents> {
    Arc::new(NodeEvents::new(Arc::clone(label), Arc::default()))
}

fn claim_as(
    servers: &KnownServers,
    node: usize,
    run: &str,
    promoted_from: &str,
) -> Result<Arc<ClockCheck>, Unfit> {
    claim_identity(servers, node, &identity(run, promoted_from))
}

fn claim_identity(
    servers: &KnownServers,
    node: usize,
    identity: &Identity,
) -> Result<Arc<ClockCheck>, Unfit> {
    let (lease_timing, steps) = (LeaseTiming::new(&Config::default()), Steps::new(3));
    let label = Arc::from(format!("address {node}"));
    let clock_check = || Arc::new(ClockCheck::new(events(&label), lease_timing, Arc::new(steps)));
    servers.claim(node, &label, identity, clock_check)
}

fn claim(servers: &KnownServers, node: usize, run: &str) -> Result<Arc<ClockCheck>, Unfit> {
    claim_as(servers, node, run, "")
}

fn now() -> Moment {
    Clock::Host.now()
}

/// Whether a server that comes to an address is trusted with its memory from before.
fn trusted(servers: &KnownServers, node: usize, run: &str) -> bool {
    servers.disconnected(node, Some(now()));
    claim(servers, node, run).expect("no twin");
    servers.missed_until(node).is_none()
}

#[test]
fn a_successor_remembers_nothing_from_before_it_came() {
    let servers = KnownServers::new(1, Clock::Host);
    assert!(trusted(&servers, 0, "a"));
    assert!(trusted(&servers, 0, "a"), "its connection was replaced");
    assert!(!trusted(&servers, 0, "b"));
    assert!(!trusted(&servers, 0, "b"), "not by connecting again either");
    assert!(!trusted(&servers, 0, "a"), "nor by having been there once");
    servers.introduced(0);
    assert!(trusted(&servers, 0, "a"), "its record tells since when");
}

/// The missed time of a server ends with the last question to the server before it, at its address or entry.
#[test]
fn a_successor_has_missed_what_was_granted_until_its_predecessor_was_last_asked() {
    let servers = KnownServers::new(2, Clock::Host);
    let at = |second| Moment::at(Duration::from_secs(second));
    let asked = |second| Some(at(second));
    let claim = |node, run| claim(&servers, node, run).expect("no twin");
    claim(0, "a");
    claim(1, "b");
    servers.disconnected(0, asked(3));
    claim(0, "c");
    assert_eq!(servers.missed_until(0), Some(at(3)));
    servers.introduced(0);
    assert_eq!(servers.missed_until(0), None);
    servers.disconnected(1, asked(5));
    servers.disconnected(0, asked(4));
    claim(0, "b");
    claim(1, "d");
    assert_eq!(servers.missed_until(0), None, "it was never away");
    assert_eq!(servers.missed_until(1), Some(at(5)), "b had that address");
    servers.disconnected(0, asked(7));
    servers.disconnected(1, asked(6));
    claim(1, "e");
    assert_eq!(servers.missed_until(1), Some(at(6)), "d had that address");
}

#[test]
fn servers_whose_addresses_change_places_are_known_still() {
    let servers = KnownServers::new(3, Clock::Host);
    for (node, run) in ["a", "b", "c"].into_iter().enumerate() {
        assert!(trusted(&servers, node, run));
    }
    let twin = claim(&servers, 0, "b")
        .err()
        .expect("it is still at its old address");
    let other = "address 1".into();
    assert_eq!(twin, Unfit::SameServer { other });
    (1..3).for_each(|node| servers.disconnected(node, Some(now())));
    assert!(trusted(&servers, 0, "b") && trusted(&servers, 1, "c") && trusted(&servers, 2, "a"));
    // Meanwhile a new server comes, and the displaced server counts as new, too.
    assert!(!trusted(&servers, 2, "d"));
    assert!(trusted(&servers, 0, "b") && trusted(&servers, 1, "c"));
    assert!(!trusted(&servers, 2, "a"));
}

#[test]
fn what_was_doubted_of_a_server_goes_with_it() {
    let servers = KnownServers::new(2, Clock::Host);
    let before = claim(&servers, 0, "a").expect("no twin");
    servers.disconnected(0, Some(now()));
    let after = claim(&servers, 1, "a").expect("no twin");
    assert!(Arc::ptr_eq(&before, &after));
}

/// A hold has a server's grant under the address that the server had then.
#[test]
fn a_step_counts_at_every_address_that_the_server_had() {
    let (servers, steps) = (KnownServers::new(2, Clock::Host), Arc::new(Steps::new(2)));
    let identity = identity("a", "a");
    let label = Arc::from("address");
    let claim = |node| {
        let lease_timing = LeaseTiming::new(&Config::default());
        let clock_check = || Arc::new(ClockCheck::new(events(&label), lease_timing, Arc::clone(&steps)));
        let history = servers.claim(node, &label, &identity, clock_check);
        servers.disconnected(node, Some(now()));
        history.expect("no twin")
    };
    let at = |second| Moment::at(Duration::from_secs(second));
    claim(0).observe(1_700_000_000_000_000, at(1), at(1));
    claim(1).observe(1_700_000_001_100_000, at(2), at(2));
    for node in 0..2 {
        assert!(!steps.since(node, at(0)).is_zero(), "100 ms at {node}");
    }
}

/// No more servers than there are masters ever vote without a wait, at any addresses.
#[test]
fn no_more_servers_are_trusted_than_there_are_masters() {
    let servers = KnownServers::new(2, Clock::Host);
    assert!(trusted(&servers, 0, "a"));
    servers.disconnected(0, Some(now()));
    assert!(trusted(&servers, 1, "a"), "address 1 was out of reach before");
    assert!(!trusted(&servers, 0, "b"), "a had that address");
    servers.disconnected(0, Some(now()));
    servers.disconnected(1, Some(now()));
    assert!(!trusted(&servers, 0, "c"));
    assert!(trusted(&servers, 1, "a"));
}

#[test]
fn a_server_that_was_a_replica_meanwhile_is_another() {
    let servers = KnownServers::new(1, Clock::Host);
    assert!(trusted(&servers, 0, "a"));
    servers.disconnected(0, Some(now()));
    claim_as(&servers, 0, "a", "of another").expect("no twin");
    assert!(servers.missed_until(0).is_some());
}

fn identity(run: &str, promoted_from: &str) -> Identity {
    Identity {
        run_id: run.to_owned(),
        replication_id: String::new(),
        promoted_from: promoted_from.to_owned(),
        is_of_a_process: true,
    }
}

#[test]
fn a_run_ends_with_its_process_and_by_a_promotion() {
    let (run, promoted) = (identity("a", ""), identity("a", "b"));
    for (earlier, later, why) in [
        (&run, &identity("c", ""), "another process"),
        (&run, &promoted, "promoted"),
        (&promoted, &identity("a", "c"), "promoted once more"),
    ] {
        assert!(!earlier.is_same_run(later), "{why}");
    }
    let followed = Identity {
        replication_id: "another".to_owned(),
        ..run.clone()
    };
    for (earlier, later, why) in [
        (&run, &run, "the same"),
        (&run, &followed, "a first replica came"),
        (&promoted, &promoted, "the same"),
        (&promoted, &run, "it has had no replica for long"),
    ] {
        assert!(earlier.is_same_run(later), "{why}");
    }
    let behind_a_proxy = Identity {
        is_of_a_process: false,
        ..run
    };
    for hidden in [behind_a_proxy, identity("", "")] {
        assert!(
            !hidden.is_same_run(&hidden) && hidden.run().is_none(),
            "nobody can tell"
        );
    }
}

/// A server without a run id is known by its replication id, and a server without both only by its address.
#[test]
fn one_server_at_two_addresses_is_noticed_where_it_tells_which_it_is() {
    let servers = KnownServers::new(2, Clock::Host);
    let claim = |node, identity: &Identity| claim_identity(&servers, node, identity).is_ok();
    let nameless = identity("", "");
    let replicating = Identity {
        replication_id: "r".to_owned(),
        ..nameless.clone()
    };
    assert!(claim(0, &replicating));
    assert!(!claim(1, &replicating));
    servers.disconnected(0, Some(now()));
    assert!(claim(0, &nameless) && claim(1, &nameless), "nobody can tell");
}
