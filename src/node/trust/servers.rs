//! Which servers are in the pool: none of them twice, and since when each is known.
//!
//! What a server is trusted with is its own, not its address's: addresses may change places, and the same
//! servers vote on. There are as many seats as masters, so that no more servers vote within a quarantine
//! than two quorums have in common: a server that is new takes the seat of one that is away, and that one
//! is new when it comes again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::clock_check::ClockCheck;
use crate::error::Unfit;
use crate::node::Identity;

/// The servers of a pool.
#[derive(Debug)]
pub(crate) struct KnownServers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// At most one for each address.
    seats: Vec<KnownServer>,
    /// Whether a server was ever seen there, one for each address.
    taken: Vec<bool>,
}

/// One run of one server.
#[derive(Debug)]
struct KnownServer {
    identity: Identity,
    /// Its address the last time.
    place: usize,
    label: Arc<str>,
    /// Whether there is a connection to it.
    present: bool,
    first_seen: Instant,
    /// Another server had the address before, or the seat.
    successor: bool,
    clock_check: Arc<ClockCheck>,
}

impl KnownServer {
    fn is_of(&self, place: usize, identity: &Identity) -> bool {
        self.identity == *identity && (self.place == place || !identity.run_id.is_empty())
    }

    fn is_run(&self, identity: &Identity) -> bool {
        !identity.run_id.is_empty() && self.identity.run_id == identity.run_id
    }
}

/// What is known of a server, beside what it tells itself.
#[derive(Clone, Debug)]
pub(in crate::node) struct ServerHistory {
    known_for: Duration,
    successor: bool,
    pub(in crate::node) clock_check: Arc<ClockCheck>,
}

impl ServerHistory {
    /// How far back the memory of a server that claims `memory` reaches, as far as the pool is
    /// concerned. What a successor has remembered before it came was not what its predecessor was told;
    /// besides, an uptime is told by a wall clock, which may have been set forward since the start.
    pub(in crate::node) fn memory(&self, memory: Option<Duration>) -> Duration {
        match memory {
            Some(memory) if !self.successor => memory,
            Some(memory) => memory.min(self.known_for),
            None => self.known_for,
        }
    }
}

impl KnownServers {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                seats: Vec::with_capacity(nodes),
                taken: vec![false; nodes],
            }),
        }
    }

    /// Notes that there is a connection to a server at the address `place`, unless there is one to the
    /// same server at another. A server that does not tell its run id is known by its address alone.
    pub(in crate::node) fn claim(
        &self,
        place: usize,
        label: &Arc<str>,
        identity: &Identity,
        clock_check: impl FnOnce() -> Arc<ClockCheck>,
    ) -> Result<ServerHistory, Unfit> {
        let mut state = self.state();
        let twin = |seat: &&KnownServer| seat.present && seat.place != place && seat.is_run(identity);
        if let Some(seat) = state.seats.iter().find(twin) {
            let other = Arc::clone(&seat.label);
            return Err(Unfit::SameServer { other });
        }
        let known = state.seats.iter().position(|seat| seat.is_of(place, identity));
        let index = known.unwrap_or_else(|| {
            let newcomer = KnownServer {
                identity: identity.clone(),
                place,
                label: Arc::clone(label),
                present: true,
                first_seen: Instant::now(),
                successor: state.taken[place],
                clock_check: clock_check(),
            };
            state.seat(newcomer)
        });
        state.taken[place] = true;
        let seat = &mut state.seats[index];
        (seat.place, seat.label, seat.present) = (place, Arc::clone(label), true);
        seat.clock_check.seen_at(place);
        Ok(ServerHistory {
            known_for: seat.first_seen.elapsed(),
            successor: seat.successor,
            clock_check: Arc::clone(&seat.clock_check),
        })
    }

    /// Notes that the connection to the server at that address has ended. What is known of it stays.
    pub(in crate::node) fn leave(&self, place: usize) {
        let mut state = self.state();
        let present = |seat: &&mut KnownServer| seat.present && seat.place == place;
        if let Some(seat) = state.seats.iter_mut().find(present) {
            seat.present = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives a server a seat: its own of an earlier life, that of the server that was last at its address,
    /// one that nobody has had, or that of any server that is away, of which there is one.
    fn seat(&mut self, mut newcomer: KnownServer) -> usize {
        let rank = |seat: &KnownServer| match seat {
            seat if seat.is_run(&newcomer.identity) => 0,
            seat if seat.place == newcomer.place => 1,
            seat if !seat.present => 2,
            _ => 3,
        };
        let best = (0..self.seats.len()).min_by_key(|&index| rank(&self.seats[index]));
        match best {
            Some(index) if rank(&self.seats[index]) < 2 || self.seats.len() == self.taken.len() => {
                newcomer.successor = true;
                self.seats[index] = newcomer;
                index
            }
            _ => {
                self.seats.push(newcomer);
                self.seats.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::protocol::reckoning::Reckoning;
    use crate::time::clock::Moment;
    use crate::time::steps::Steps;

    const LONG: Duration = Duration::from_secs(3600);
    const BRIEF: Duration = Duration::from_secs(60);

    fn claim_as(
        servers: &KnownServers,
        place: usize,
        run: &str,
        replication: &str,
    ) -> Result<ServerHistory, Unfit> {
        let identity = Identity {
            run_id: run.to_owned(),
            replication_id: replication.to_owned(),
        };
        let (reckoning, steps) = (Reckoning::new(&Config::default(), 3), Steps::new(3));
        let label = Arc::from(format!("address {place}"));
        let clock_check = || {
            Arc::new(ClockCheck::new(
                Arc::clone(&label),
                Arc::new(reckoning),
                Arc::new(steps),
            ))
        };
        servers.claim(place, &label, &identity, clock_check)
    }

    fn claim(servers: &KnownServers, place: usize, run: &str) -> Result<ServerHistory, Unfit> {
        claim_as(servers, place, run, run)
    }

    /// Whether a server that comes there is trusted with what it remembers from before.
    fn trusted(servers: &KnownServers, place: usize, run: &str) -> bool {
        servers.leave(place);
        let history = claim(servers, place, run).expect("no twin");
        history.memory(Some(LONG)) == LONG
    }

    #[test]
    fn a_successor_remembers_nothing_from_before_it_came() {
        let servers = KnownServers::new(1);
        assert!(trusted(&servers, 0, "a"));
        assert!(trusted(&servers, 0, "a"), "its connection was replaced");
        assert!(!trusted(&servers, 0, "b"));
        assert!(!trusted(&servers, 0, "b"), "not by connecting again either");
        assert!(!trusted(&servers, 0, "a"), "nor by having been there once");
    }

    #[test]
    fn servers_whose_addresses_change_places_are_known_still() {
        let servers = KnownServers::new(3);
        for (place, run) in ["a", "b", "c"].into_iter().enumerate() {
            assert!(trusted(&servers, place, run));
        }
        let twin = claim(&servers, 0, "b").expect_err("it is still at its old address");
        let other = "address 1".into();
        assert_eq!(twin, Unfit::SameServer { other });
        (1..3).for_each(|place| servers.leave(place));
        assert!(trusted(&servers, 0, "b") && trusted(&servers, 1, "c") && trusted(&servers, 2, "a"));
        // In the midst of it a stranger comes, and one that was away for it is a stranger, too.
        assert!(!trusted(&servers, 2, "d"));
        assert!(trusted(&servers, 0, "b") && trusted(&servers, 1, "c"));
        assert!(!trusted(&servers, 2, "a"));
    }

    #[test]
    fn what_was_doubted_of_a_server_goes_with_it() {
        let servers = KnownServers::new(2);
        let before = claim(&servers, 0, "a").expect("no twin").clock_check;
        servers.leave(0);
        let after = claim(&servers, 1, "a").expect("no twin").clock_check;
        assert!(Arc::ptr_eq(&before, &after));
    }

    /// What a hold was granted there stands in it under the address that the server had then.
    #[test]
    fn a_step_counts_at_every_address_that_the_server_had() {
        let (servers, steps) = (KnownServers::new(2), Arc::new(Steps::new(2)));
        let identity = Identity {
            run_id: "a".to_owned(),
            replication_id: "a".to_owned(),
        };
        let label = Arc::from("address");
        let claim = |place| {
            let reckoning = Arc::new(Reckoning::new(&Config::default(), 2));
            let clock_check = || Arc::new(ClockCheck::new(Arc::clone(&label), reckoning, Arc::clone(&steps)));
            let history = servers.claim(place, &label, &identity, clock_check);
            servers.leave(place);
            history.expect("no twin").clock_check
        };
        let at = |second| Moment::at(Duration::from_secs(second));
        claim(0).hear(1_700_000_000_000_000, at(1), at(1));
        claim(1).hear(1_700_000_001_100_000, at(2), at(2));
        for place in 0..2 {
            assert!(!steps.since(place, at(0)).is_zero(), "100 ms at {place}");
        }
    }

    /// The servers that ever voted without a wait are as many as the masters, wherever they came.
    #[test]
    fn no_more_servers_are_trusted_than_there_are_masters() {
        let servers = KnownServers::new(2);
        assert!(trusted(&servers, 0, "a"));
        servers.leave(0);
        assert!(trusted(&servers, 1, "a"), "address 1 was out of reach before");
        assert!(!trusted(&servers, 0, "b"), "a had that address");
        servers.leave(0);
        servers.leave(1);
        assert!(!trusted(&servers, 0, "c"));
        assert!(trusted(&servers, 1, "a"));
    }

    #[test]
    fn a_server_that_was_a_replica_meanwhile_is_another() {
        let servers = KnownServers::new(1);
        assert!(trusted(&servers, 0, "a"));
        servers.leave(0);
        let history = claim_as(&servers, 0, "a", "of another").expect("no twin");
        assert!(history.memory(Some(LONG)) < BRIEF);
    }
}
