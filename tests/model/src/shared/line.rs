//! Requests on their way from a client to a master, first in, first out.

/// Kind of a request to a master. Taking a forgotten hold again is an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    AcquireRead,
    AcquireWrite,
    KeepRead,
    KeepWrite,
    Downgrade,
    Release,
}

const VERBS: [Verb; 6] = [
    Verb::AcquireRead,
    Verb::AcquireWrite,
    Verb::KeepRead,
    Verb::KeepWrite,
    Verb::Downgrade,
    Verb::Release,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) attempt: u8,
    /// Its answer is counted in the client's present round.
    pub(super) awaited: bool,
}

/// Five bits to a request: three for the verb, one for the attempt, one for whether it is awaited.
const BITS: u32 = 5;
const ATTEMPT: u64 = 1 << 3;
const AWAITED: u64 = 1 << 4;

/// Up to twelve requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line(u64);

impl Line {
    pub(super) fn push(&mut self, request: Request) {
        let used = u64::BITS - self.0.leading_zeros();
        let shift = used.next_multiple_of(BITS);
        assert!(shift + BITS <= u64::BITS, "a line is as long as it can be");
        let attempt = u64::from(request.attempt) * ATTEMPT;
        let awaited = u64::from(request.awaited) * AWAITED;
        self.0 |= ((request.verb as u64 + 1) | attempt | awaited) << shift;
    }

    pub(super) fn first(self) -> Option<Request> {
        self.iter().next()
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        let first = self.first();
        self.0 >>= BITS;
        first
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Request> {
        (0..u64::BITS / BITS)
            .map(move |place| self.0 >> (place * BITS))
            .map(|rest| (VERBS.iter().find(|verb| **verb as u64 + 1 == rest & 7), rest))
            .map_while(|(verb, rest)| {
                verb.map(|verb| Request {
                    verb: *verb,
                    attempt: u8::from(rest & ATTEMPT != 0),
                    awaited: rest & AWAITED != 0,
                })
            })
    }

    /// The requests that `kept` accepts.
    pub(super) fn filtered(self, kept: impl Fn(Request) -> bool) -> Self {
        let mut line = Self::default();
        self.iter()
            .filter(|request| kept(*request))
            .for_each(|request| line.push(request));
        line
    }

    /// The same requests, none of them awaited.
    pub(super) fn unawaited(self) -> Self {
        let mut line = Self::default();
        for request in self.iter() {
            line.push(Request {
                awaited: false,
                ..request
            });
        }
        line
    }

    pub(super) fn releases(self, attempt: u8) -> bool {
        self.iter()
            .any(|request| request.verb == Verb::Release && request.attempt == attempt)
    }
}

impl Extend<Request> for Line {
    fn extend<I: IntoIterator<Item = Request>>(&mut self, requests: I) {
        for request in requests {
            self.push(request);
        }
    }
}
