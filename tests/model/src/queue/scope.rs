//! Bounds of the exploration of the queue, and its weaker forms.

use super::model::{DONE, FEW, ORDER};
use super::state::{MASTERS, WAITERS};

/// The largest numbers of rounds of all waiters together: in any scope, and in [`CALLS`] if calls arrive at once.
const ROUNDS: u8 = 12;
const ROUNDS_AT_ONCE: u8 = 10;

/// The rules of the queue, each of them a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
pub(super) struct Rules {
    /// A waiter draws one ticket. Off: another one for every round.
    pub(super) one_ticket: bool,
    /// A waiter that is new to a master minds the older tickets in the queue there.
    pub(super) newcomers_mind: bool,
    /// A rollback queues the waiter again.
    pub(super) queued_again: bool,
    pub(super) rollback_calls: RollbackCalls,
    /// A waiter that leaves the queue calls the next one.
    pub(super) leaving_calls: bool,
    /// A waiter that only an older ticket refuses calls the waiter of that ticket.
    pub(super) refused_call: bool,
    /// A waiter that has ended answers a call by leaving.
    pub(super) strangers_leave: bool,
    /// A winner leaves the queue of a master that refused it and has called it since.
    pub(super) winners_leave: bool,
    /// Calls count from when the acquire was sent. Off: from when the round was lost.
    pub(super) calls_count_early: bool,
    /// A grant that is heard of after the round was lost tells that the master is open.
    pub(super) late_grants_count: bool,
    /// A waiter that one of its names has refused for long stands in the queue of that name alone.
    pub(super) narrows: bool,
}

/// The waiter that a rollback calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RollbackCalls {
    /// The head of the queue, unless that is the waiter that rolls back.
    Head,
    ItselfToo,
    /// The head, if enough masters granted for the round to look like a holder.
    HeadAfterMany,
    Nobody,
}

const PROTOCOL: Rules = Rules {
    one_ticket: true,
    newcomers_mind: true,
    queued_again: true,
    rollback_calls: RollbackCalls::Head,
    leaving_calls: true,
    refused_call: true,
    strangers_leave: true,
    winners_leave: true,
    calls_count_early: true,
    late_grants_count: true,
    narrows: true,
};

/// The bounds of one exploration.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
pub(crate) struct Scope {
    pub(super) name: &'static str,
    pub(super) rules: Rules,
    /// How many waiters there are.
    pub(super) waiters: usize,
    /// Grants that each needs, the oldest first.
    pub(super) quorum: [usize; WAITERS],
    /// Rounds that each may begin without having been called, after its first.
    pub(super) again: [u8; WAITERS],
    /// Whether masters call. If they do not, a waiter that has ended may leave at any time.
    pub(super) calls: bool,
    /// Whether a call arrives in the moment in which it is sent.
    pub(super) calls_arrive_at_once: bool,
    /// Whether a round ends at any time after its answers told how. Off: at once.
    pub(super) decided_later: bool,
    /// Whether the order in which they come in is looked at.
    pub(super) order: bool,
    /// Whether one of them may give up.
    pub(super) may_give_up: bool,
    /// Masters on which the oldest wants a second name, too, that somebody holds for ever.
    pub(super) shut: [bool; MASTERS],
    /// Whether a client that calls nobody holds the name at first.
    pub(super) foreign: bool,
    /// Rounds that all of them together begin at most, where there are calls.
    pub(super) rounds: u8,
    /// States that must come about in it, so that it is not vacuous.
    pub(super) witnesses: &'static [&'static str],
}

/// Three waiters that ask again only when they are called.
const CALLS: Scope = Scope {
    name: "calls alone",
    rules: PROTOCOL,
    waiters: WAITERS,
    quorum: [2; WAITERS],
    again: [0; WAITERS],
    calls: true,
    calls_arrive_at_once: false,
    decided_later: false,
    order: false,
    may_give_up: false,
    shut: [false; MASTERS],
    foreign: false,
    rounds: ROUNDS,
    witnesses: &["a second round", "nobody had to ask again"],
};

/// They ask again at any time, so that no call has to bring them.
const ORDERED: Scope = Scope {
    name: "overtaking",
    again: [1; WAITERS],
    calls: false,
    order: true,
    witnesses: &["a younger one begins after a placed one"],
    ..CALLS
};

/// One of them may give up at any time.
const GIVING_UP: Scope = Scope {
    name: "giving up",
    calls_arrive_at_once: true,
    may_give_up: true,
    witnesses: &["one gives up, and the others are done"],
    ..CALLS
};

/// The oldest one wants a second name, too, and nobody ever gives that back.
const SEVERAL: Scope = Scope {
    name: "several names",
    waiters: 2,
    again: [1, 0, 0],
    shut: [true; MASTERS],
    witnesses: &["one waits for another name, and the others are done"],
    ..CALLS
};

/// The younger one asks again after the client that calls nobody has let go.
const SILENT: Scope = Scope {
    name: "a holder that calls nobody",
    waiters: 2,
    again: [0, 1, 0],
    foreign: true,
    witnesses: &["a second round"],
    ..CALLS
};

/// The same for `MultiLock`.
const fn all(scope: Scope) -> Scope {
    Scope {
        quorum: [MASTERS; WAITERS],
        ..scope
    }
}

impl Scope {
    pub(super) fn wants_both(&self, waiter: usize) -> bool {
        waiter == 0 && self.shut != [false; MASTERS]
    }
}

/// The same where the second one alone needs every master.
const fn mixed(scope: Scope) -> Scope {
    Scope {
        quorum: [2, MASTERS, 2],
        ..scope
    }
}

const fn decided_later(scope: Scope) -> Scope {
    Scope {
        decided_later: true,
        ..scope
    }
}

const fn heard_at_once(scope: Scope) -> Scope {
    Scope {
        calls_arrive_at_once: true,
        rounds: ROUNDS_AT_ONCE,
        ..scope
    }
}

/// The scopes in which the rules hold.
pub(super) fn scopes() -> Vec<Scope> {
    let named = |name, scope: Scope| Scope { name, ..scope };
    let one_open = |scope: Scope| Scope {
        shut: [true, true, false],
        ..scope
    };
    let three = |scope: Scope| Scope {
        waiters: WAITERS,
        calls_arrive_at_once: true,
        ..scope
    };
    vec![
        ORDERED,
        named("overtaking, MultiLock", all(ORDERED)),
        named("overtaking, mixed policies", mixed(ORDERED)),
        decided_later(CALLS),
        named("calls alone, MultiLock", decided_later(all(CALLS))),
        named("calls alone, mixed policies", decided_later(mixed(CALLS))),
        named("calls alone, heard at once", heard_at_once(CALLS)),
        GIVING_UP,
        named("giving up, MultiLock", all(GIVING_UP)),
        named("giving up, mixed policies", mixed(GIVING_UP)),
        SEVERAL,
        named("several names, MultiLock", three(all(SEVERAL))),
        named("several names, one master open", one_open(SEVERAL)),
        named("several names, one open, MultiLock", one_open(all(SEVERAL))),
        SILENT,
    ]
}

/// A weaker form, and the promise that it breaks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weaker {
    pub(super) scope: Scope,
    pub(super) breaks: &'static str,
}

/// A weaker form: its name, where it is explored, how its rules differ, and the promise that breaks.
macro_rules! weaker {
    ($name:literal, $scope:expr, {$($rule:ident: $value:expr),*}, $breaks:expr) => {
        Weaker {
            scope: Scope {
                name: $name,
                rules: Rules { $($rule: $value,)* ..PROTOCOL },
                ..$scope
            },
            breaks: $breaks,
        }
    };
}

/// All of them.
pub(super) fn weaker_forms() -> Vec<Weaker> {
    vec![
        weaker!("a rollback that does not queue again", ORDERED, { queued_again: false }, ORDER),
        weaker!("a ticket for every round", ORDERED, { one_ticket: false }, ORDER),
        weaker!("newcomers who mind no ticket", ORDERED, { newcomers_mind: false }, ORDER),
        weaker!("a rollback that calls nobody", all(CALLS), { rollback_calls: RollbackCalls::Nobody }, DONE),
        weaker!("a rollback that calls after many grants", CALLS, {
            rollback_calls: RollbackCalls::HeadAfterMany
        }, DONE),
        // It does come to an end, after more rounds than there ever are without it.
        weaker!("a rollback that calls itself", heard_at_once(CALLS), {
            rollback_calls: RollbackCalls::ItselfToo
        }, FEW),
        weaker!("giving up without a call", GIVING_UP, { leaving_calls: false }, DONE),
        weaker!("refused by a ticket without a call", SILENT, { refused_call: false }, DONE),
        weaker!("calls that a stranger leaves unanswered", CALLS, { strangers_leave: false }, DONE),
        weaker!("calls that a winner leaves unanswered", mixed(CALLS), { winners_leave: false }, DONE),
        weaker!("calls that count from the answer", decided_later(CALLS), { calls_count_early: false }, DONE),
        weaker!("late grants that do not count", all(CALLS), { late_grants_count: false }, DONE),
        weaker!("standing in all queues for ever", SEVERAL, { narrows: false }, DONE),
    ]
}
