//! A hold that passes from task to task: its guards exit, waiters give up and the grant is lost in threads of their
//! own.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use loom::future::block_on;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::expiry::HoldExpiry;
use super::grant::{Grant, GrantFacts, Hold};
use super::state::{Exited, FirstHold, IdleHoldOptions};
use crate::error::LossCause;
use crate::explore;
use crate::node::recalls::KnownField;
use crate::node::waiter_state::WaiterState;
use crate::protocol::field::Field;
use crate::protocol::kind::HoldKind;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::WaitersBehind;
use crate::protocol::waiter::Waiter;
use crate::queue::{
    Delivery, Joined, LineOptions, LinePosition, Lines, Mailbox, NextInLine, QueueEntry, Turn,
};
use crate::time::clock::{Clock, Moment};
use crate::time::steps::Steps;
use crate::time::validity::Validity;
use crate::values::names::Names;
use crate::values::token::{Block, FencingToken};
use crate::values::votes::Vote;

const LEASE: Duration = Duration::from_secs(30);
const NOW: Moment = Moment(1);

/// A waiter behind others.
struct Waits {
    position: LinePosition<Hold>,
    mailbox: Arc<Mailbox<Hold>>,
}

impl Waits {
    /// The delivery to it, unless that is taken back before it is taken.
    async fn delivered(&mut self) -> Option<Delivery<Hold>> {
        self.position.delivered().await
    }
}

/// A process with tasks that want one name.
struct Process {
    lines: Arc<Lines<Hold>>,
    grant: Arc<Grant>,
    released: AtomicUsize,
}

fn options() -> LineOptions {
    LineOptions {
        names: Names,
        kind: HoldKind::Plain,
        needed: 1,
        lease: LEASE,
        min_validity: Duration::ZERO,
        fenced: true,
        fair: false,
        caption: None,
        hands_on: true,
    }
}

impl Process {
    /// With a hold that has the turn, and a guard in it.
    fn new() -> (Arc<Self>, Hold) {
        let votes = vec![Vote::Granted];
        let on = NodeSet::of(&votes, |_| true);
        let validity = Validity::of_lease(NOW, LEASE, 0.0);
        let facts = GrantFacts {
            names: Names,
            field: Field,
            needed: 1,
            tokens: FencingToken(100).block(Block::SIZE),
            granted: HoldKind::Plain,
            permits: None,
            beside_redisson: false,
            caption: None,
            behind: WaitersBehind::default(),
            begun: NOW,
            took: Duration::ZERO,
        };
        let first = FirstHold {
            ends: HoldExpiry::new(validity, on, 1, &Arc::new(Steps::new(1)), 0),
            lease: LEASE,
            votes,
            max_hold: None,
            set_completes_within: None,
            is_sticky: true,
        };
        let hold = Hold::first(Grant::new(Clock(NOW), facts, first, KnownField));
        let process = Self {
            lines: Arc::new(Lines::new()),
            grant: Arc::clone(&hold.grant),
            released: AtomicUsize::new(0),
        };
        assert!(
            hold.with_state(|state, number| state.enter(number, NOW, Duration::ZERO, true, HoldKind::Plain))
                .is_some()
        );
        hold.keep_turn(process.join(0).ok().expect("nobody is ahead"));
        (Arc::new(process), hold)
    }

    fn join(&self, number: u64) -> Result<Turn<Hold>, Waits> {
        let entry = QueueEntry {
            waiter: Waiter { ticket: number },
            state: Arc::new(WaiterState { number }),
        };
        let next_in_line = NextInLine {
            ticket: Some(number),
            begun: NOW,
            renew: true,
            max_hold: None,
            at_least: Duration::ZERO,
            is_sticky: true,
        };
        let mailbox = Arc::new(Mailbox::new());
        match self.lines.join(&options(), entry, next_in_line, &mailbox) {
            Joined::Turn(turn) => Ok(turn),
            Joined::Behind(position, _) => Err(Waits { position, mailbox }),
            Joined::Concurrent => unreachable!("nobody reads"),
        }
    }

    fn wait(&self, number: u64) -> Waits {
        self.join(number).err().expect("behind others")
    }

    /// As a guard does that is given up.
    fn exit(&self, hold: &Hold) {
        if hold.exit(true, false) == Exited::Last && !self.grant.hand_on() {
            let turn = self.grant.take_turn();
            self.release();
            drop(turn);
        }
    }

    /// As a guard of a sticky lock does that is given up. Returns whether the grant stays.
    fn leave_idle(&self, hold: &Hold) -> bool {
        assert_eq!(hold.exit(true, false), Exited::Last);
        let goes_on = self.grant.hand_on();
        let stays = !goes_on && self.grant.become_idle();
        if !goes_on && !stays {
            self.release_with_turn();
        }
        stays
    }

    /// As a client does when a waiter elsewhere recalls the grant, or when it wants the names otherwise.
    fn end_idle(&self) {
        if self.grant.state().end_idle() {
            self.release_with_turn();
        }
    }

    /// As `UnsentRelease::of` does.
    fn release_with_turn(&self) {
        if self.grant.begin_release() {
            let turn = self.grant.take_turn();
            self.released.fetch_add(1, Ordering::SeqCst);
            drop(turn);
        }
    }

    fn recall(&self) {
        if self.grant.note_waiter(NonZeroU64::MIN) {
            self.end_idle();
        }
    }

    fn take_idle(&self) -> Option<Hold> {
        self.grant.take_idle(&IdleHoldOptions {
            lease: LEASE,
            min_validity: Duration::ZERO,
            max_hold: None,
            is_sticky: true,
        })
    }

    fn release(&self) {
        if self.grant.begin_release() {
            self.released.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Uses up a delivery, as its task does. Returns the token of the hold.
    fn use_up(&self, delivery: Delivery<Hold>) -> Option<u64> {
        match delivery {
            Delivery::Turn(turn) => {
                drop(turn);
                None
            }
            Delivery::Concurrent => unreachable!("nobody reads"),
            Delivery::Hold(hold) => {
                if !hold.with_state(|state, number| state.take(number, true)) {
                    return None;
                }
                let token = hold.token().get();
                self.exit(&hold);
                assert_eq!(hold.remaining(), Duration::ZERO);
                Some(token)
            }
        }
    }

    fn assert_over(&self) {
        assert_eq!(self.released.load(Ordering::SeqCst), 1, "released once");
        assert_eq!(self.grant.left(), Duration::ZERO);
        assert!(self.join(9).is_ok(), "the line has ended");
    }
}

/// The front of a line admits all behind it while one of them gives up: the turn is with nobody who has left.
pub fn a_turn_that_opens_the_line_is_not_lost() {
    explore(3, || {
        let (process, _hold) = Process::new();
        let mut gives_up = process.wait(1);
        let turn = process.grant.take_turn().expect("its hold has the turn");
        let giving_up = thread::spawn(move || {
            drop(gives_up.position.withdraw());
            // Its task goes on with the place in its hand.
            thread::yield_now();
        });
        turn.open();
        giving_up.join().expect("no panic");
        assert!(process.join(9).is_ok(), "the line has ended");
    });
}

/// A guard exits while one waiter gives up and another waits. The hold passes on or is released, once. A waiter that
/// still waits has it or the turn.
pub fn what_is_passed_on_is_never_lost() {
    explore(3, || {
        let (process, hold) = Process::new();
        let (mut gives_up, mut waits) = (process.wait(1), process.wait(2));
        let exiting = {
            let process = Arc::clone(&process);
            thread::spawn(move || process.exit(&hold))
        };
        let giving_up = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                gives_up
                    .position
                    .withdraw()
                    .and_then(|delivery| process.use_up(delivery))
            })
        };
        let token = block_on(waits.delivered()).and_then(|delivery| process.use_up(delivery));
        exiting.join().expect("no panic");
        let other = giving_up.join().expect("no panic");
        match (other, token) {
            (Some(first), Some(second)) => assert_eq!((first, second), (101, 102)),
            (one, other) => assert!(one.or(other).is_none_or(|token| token == 101)),
        }
        process.assert_over();
    });
}

/// The grant is lost while it changes hands: its present holder finds no validity, and it is released once.
pub fn what_is_lost_is_released_once() {
    explore(3, || {
        let (process, hold) = Process::new();
        let mut waits = process.wait(1);
        let exiting = {
            let process = Arc::clone(&process);
            thread::spawn(move || process.exit(&hold))
        };
        let losing = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                if process.grant.lose(LossCause::Closed) {
                    process.release();
                    drop(process.grant.take_turn());
                }
            })
        };
        block_on(waits.delivered()).and_then(|delivery| process.use_up(delivery));
        exiting.join().expect("no panic");
        losing.join().expect("no panic");
        process.assert_over();
    });
}

/// A delivery to a task is taken back while the task takes it: one of the two has it, and it is released once.
pub fn what_is_taken_back_is_not_taken_too() {
    explore(3, || {
        let (process, hold) = Process::new();
        let mut waits = process.wait(1);
        let taking_back = {
            let (process, mailbox) = (Arc::clone(&process), Arc::clone(&waits.mailbox));
            thread::spawn(move || mailbox.take().map(|delivery| process.use_up(delivery)).is_some())
        };
        process.exit(&hold);
        let taken = block_on(waits.delivered()).map(|delivery| process.use_up(delivery));
        let taken_back = taking_back.join().expect("no panic");
        assert!(taken.is_some() != taken_back, "one of them has it");
        process.assert_over();
    });
}

/// Two guards of a hold exit at once: one of them is the last.
pub fn one_of_two_guards_is_the_last() {
    explore(3, || {
        let (process, hold) = Process::new();
        assert!(
            hold.with_state(|state, number| state.enter(number, NOW, Duration::ZERO, true, HoldKind::Plain))
                .is_some()
        );
        let exiting = {
            let (process, hold) = (Arc::clone(&process), hold.clone());
            thread::spawn(move || process.exit(&hold))
        };
        process.exit(&hold);
        exiting.join().expect("no panic");
        process.assert_over();
    });
}

/// A grant that stays is taken while a waiter elsewhere recalls it: it is released, at once or when the new hold is given
/// up, and once.
pub fn what_is_recalled_is_released() {
    explore(3, || {
        let (process, hold) = Process::new();
        assert!(process.leave_idle(&hold));
        let recalling = {
            let process = Arc::clone(&process);
            thread::spawn(move || process.recall())
        };
        if let Some(next) = process.take_idle() {
            assert_eq!(next.token().get(), 101);
            assert!(!next.remaining().is_zero(), "nobody releases what is held");
            assert!(!process.leave_idle(&next) || process.released.load(Ordering::SeqCst) < 2);
        }
        recalling.join().expect("no panic");
        process.assert_over();
    });
}

/// The last guard leaves while a waiter elsewhere recalls the grant: it does not stay.
pub fn a_recall_at_the_end_of_a_hold_is_heeded() {
    explore(3, || {
        let (process, hold) = Process::new();
        let recalling = {
            let process = Arc::clone(&process);
            thread::spawn(move || process.recall())
        };
        process.leave_idle(&hold);
        recalling.join().expect("no panic");
        process.assert_over();
    });
}

/// The last guard leaves while a task joins its line. The task gets the hold or the turn, and does not wait for a grant
/// that nobody holds.
pub fn who_joins_does_not_wait_for_what_stays() {
    explore(3, || {
        let (process, hold) = Process::new();
        let leaving = {
            let process = Arc::clone(&process);
            thread::spawn(move || process.leave_idle(&hold))
        };
        match process.join(1) {
            Ok(turn) => drop(turn),
            Err(mut waits) => {
                // As `IdleGrants::offer` does once the task stands in line.
                if !process.grant.hand_on() {
                    process.end_idle();
                }
                if let Some(Delivery::Hold(next)) = block_on(waits.delivered()) {
                    assert!(next.with_state(|state, number| state.take(number, true)));
                    let released = process.released.load(Ordering::SeqCst);
                    assert_eq!(released, 0, "it is held");
                    assert!(!next.remaining().is_zero());
                    process.leave_idle(&next);
                }
            }
        }
        leaving.join().expect("no panic");
        process.end_idle();
        process.assert_over();
    });
}
