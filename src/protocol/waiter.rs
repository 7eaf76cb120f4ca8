//! Place of a request for names: a waiter with a place in their queues, or a request that does not wait.

use std::time::Duration;

use crate::protocol::kind::HoldKind;

/// Bounds of the time in which a waiter has to ask once it is called.
/// - Not less: a process may pause.
/// - Not more: no other waiter gets the names meanwhile.
/// - A ticket counts for longer (`lua/queue.lua`).
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);

/// Marks behind the number of a waiter that wants to read, and of a waiter that wants a permit.
const READS: &str = "r";
const PERMIT: &str = "k";

/// Index of the master that the client lists first.
pub(crate) const FIRST_MASTER: usize = 0;

/// Ticket behind all others, of no more digits than a server's numbers can store. `lua/queue.lua` knows it.
pub(crate) const LAST: u64 = (1 << 53) - 1;

/// Others that may hold the names beside a waiter once it is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum WaiterKind {
    /// Nobody.
    #[default]
    Alone,
    /// Others that read.
    Reads,
    /// The holders of the other permits.
    Permit,
}

impl WaiterKind {
    pub(crate) fn of(kind: HoldKind) -> Self {
        match kind {
            HoldKind::Plain | HoldKind::Write => Self::Alone,
            HoldKind::Read => Self::Reads,
            HoldKind::Permit => Self::Permit,
        }
    }

    /// Mark behind the waiter's number.
    fn mark(self) -> &'static str {
        match self {
            Self::Alone => "",
            Self::Reads => READS,
            Self::Permit => PERMIT,
        }
    }
}

/// A place in the queues of some names, the same on every master and for every attempt of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// Number that the waiter's client never uses again.
    pub(crate) number: u64,
    /// Ticket in microseconds by the masters' clocks. The waiter with the smaller ticket comes first.
    pub(crate) ticket: u64,
    /// Time in which the waiter has to ask once it is called.
    pub(crate) comes_within: Duration,
    /// Index of the only name with the waiter in its queue; `None` for all names.
    pub(crate) only: Option<usize>,
    pub(crate) kind: WaiterKind,
    /// Whether the waiter is in the queues of the first master alone.
    pub(crate) at_first_master: bool,
}

impl Waiter {
    /// Time to ask for a client that gives up a master after `node_timeout`.
    pub(crate) fn comes_within(node_timeout: Duration) -> Duration {
        (node_timeout * 4).clamp(SHORTEST, LONGEST)
    }

    /// Text of the waiter behind its client's id on the masters.
    pub(crate) fn text(&self) -> String {
        waiter_text(self.number, self.kind, self.comes_within)
    }

    /// The same text, with the only name that has the waiter in its queue.
    pub(crate) fn placed(&self) -> String {
        match self.only {
            None => self.text(),
            Some(index) => format!("{} {}", self.text(), index + 1),
        }
    }
}

/// Text of a waiter behind its client's id on the masters.
pub(crate) fn waiter_text(number: u64, kind: WaiterKind, comes_within: Duration) -> String {
    format!("{number}{}:{}", kind.mark(), comes_within.as_millis())
}

/// Rank of an acquire among the waiters. A caller may store more of its waiter than it sends to the masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence<W = Waiter> {
    /// A waiter: masters that refuse it let it into the queues.
    Queued(W),
    /// A ticket without a wait: after a refusal another waiter of its process waits for both.
    Ticketed(u64),
    /// No wait, and a rank behind every waiter.
    Tried,
    /// A rank before every waiter: the owner holds the names already.
    Resumed,
}

impl<W> Precedence<W> {
    /// Rank of a waiter, or of a request without one.
    pub(crate) fn of(waiter: Option<W>) -> Self {
        waiter.map_or(Self::Tried, Self::Queued)
    }

    /// Waiter, if there is one.
    pub(crate) fn waiter(self) -> Option<W> {
        match self {
            Self::Queued(waiter) => Some(waiter),
            _ => None,
        }
    }

    pub(crate) fn map<V>(self, tell: impl FnOnce(W) -> V) -> Precedence<V> {
        match self {
            Self::Queued(waiter) => Precedence::Queued(tell(waiter)),
            Self::Ticketed(ticket) => Precedence::Ticketed(ticket),
            Self::Tried => Precedence::Tried,
            Self::Resumed => Precedence::Resumed,
        }
    }
}

impl Precedence {
    pub(crate) fn ticket(self) -> u64 {
        match self {
            Self::Queued(waiter) => waiter.ticket,
            Self::Ticketed(ticket) => ticket,
            Self::Tried => LAST,
            Self::Resumed => 0,
        }
    }
}

/// Content of a call to a waiter: its number, and the name with the waiter at the head of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterCall<'a> {
    pub(crate) number: u64,
    pub(crate) kind: WaiterKind,
    /// Number of a free seat, for a permit.
    pub(crate) seat: Option<u8>,
    /// Delay before the waiter asks, if it is not to ask at once.
    pub(crate) later: Option<Duration>,
    pub(crate) name: &'a str,
}

impl<'a> WaiterCall<'a> {
    pub(crate) fn parse(message: &'a str) -> Option<Self> {
        let (number, name) = message.split_once(' ')?;
        let (number, later) = match number.split_once('+') {
            Some((number, ms)) => (number, Some(Duration::from_millis(ms.parse().ok()?))),
            None => (number, None),
        };
        let (number, kind, seat) = match (number.strip_suffix(READS), number.split_once(PERMIT)) {
            (Some(number), _) => (number, WaiterKind::Reads, None),
            (_, Some((number, ""))) => (number, WaiterKind::Permit, None),
            (_, Some((number, seat))) => (number, WaiterKind::Permit, Some(seat.parse().ok()?)),
            _ => (number, WaiterKind::Alone, None),
        };
        Some(Self {
            number: number.parse().ok()?,
            kind,
            seat,
            later,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_tells_how_long_it_needs_and_where_it_is_queued() {
        let mut waiter = Waiter {
            number: 7,
            ticket: 3,
            comes_within: Waiter::comes_within(Duration::from_millis(50)),
            only: None,
            kind: WaiterKind::Alone,
            at_first_master: false,
        };
        assert_eq!(
            (waiter.text(), waiter.placed()),
            ("7:1000".into(), "7:1000".into())
        );
        waiter.kind = WaiterKind::Reads;
        assert_eq!(waiter.text(), "7r:1000");
        waiter.kind = WaiterKind::Permit;
        assert_eq!(waiter.text(), "7k:1000");
        waiter.kind = WaiterKind::Alone;
        waiter.only = Some(1);
        assert_eq!(
            (waiter.text(), waiter.placed()),
            ("7:1000".into(), "7:1000 2".into())
        );
        assert_eq!(
            Waiter::comes_within(Duration::from_secs(1)),
            Duration::from_secs(4)
        );
        let longest = Waiter::comes_within(Duration::from_secs(60)).as_millis();
        let script = include_str!("../../lua/queue.lua");
        assert!(script.contains("TICKET = '15000'") && longest < 15_000);
        assert!(include_str!("../../lua/permit.lua").contains("math.max(lease, 15000)"));
        assert!(
            script.contains(&format!("ticket == '{LAST}'")),
            "a try is told apart by it"
        );
    }

    #[test]
    fn a_call_names_the_waiter_and_the_name() {
        let call = WaiterCall {
            number: 12,
            kind: WaiterKind::Alone,
            seat: None,
            later: None,
            name: "the till",
        };
        assert_eq!(WaiterCall::parse("12 the till"), Some(call));
        let later = Some(Duration::from_millis(400));
        assert_eq!(
            WaiterCall::parse("12+400 the till"),
            Some(WaiterCall { later, ..call })
        );
        assert_eq!(
            WaiterCall::parse("12r the till"),
            Some(WaiterCall {
                kind: WaiterKind::Reads,
                ..call
            })
        );
        let both = WaiterCall {
            later,
            kind: WaiterKind::Reads,
            ..call
        };
        assert_eq!(WaiterCall::parse("12r+400 the till"), Some(both));
        let permit = WaiterCall {
            kind: WaiterKind::Permit,
            seat: Some(64),
            ..call
        };
        assert_eq!(WaiterCall::parse("12k64 the till"), Some(permit));
        let told = WaiterCall {
            later,
            seat: None,
            ..permit
        };
        assert_eq!(WaiterCall::parse("12k+400 the till"), Some(told));
        assert_eq!(WaiterCall::parse("12kk the till"), None);
        assert_eq!(WaiterCall::parse("12+x the till"), None);
        assert_eq!((WaiterCall::parse("12"), WaiterCall::parse("x a")), (None, None));
    }
}
