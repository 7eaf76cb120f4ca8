//! The state: masters with their stored fences, and attempts with the states of their requests.

use super::Rules;

pub(super) const MASTERS: usize = 3;
pub(super) const ATTEMPTS: usize = 3;
pub(super) const NAMES: usize = 2;
/// How far a token may be behind a master's clock, where no fence is stored.
pub(super) const BEHIND: u8 = 1;
/// How far a token may be ahead of a master's clock for a life that is counted from then.
const AHEAD: u8 = 1;
/// How far a clock may be set back.
pub(super) const BACK: u8 = 1;

/// One master, and the states of the requests to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Master {
    pub(super) clock: u8,
    /// Whether its clock was never set back.
    pub(super) steady: bool,
    /// The stored fence of each name, if there is one.
    pub(super) fences: [Option<Fence>; NAMES],
    pub(super) votes: [Vote; ATTEMPTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Fence {
    pub(super) token: u8,
    /// When it is forgotten, by the master's clock.
    pub(super) until: u8,
}

impl Fence {
    fn new(token: u8, clock: u8) -> Self {
        Self {
            token,
            until: token.max(clock + AHEAD) + BEHIND + BACK,
        }
    }
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Vote {
    Unasked,
    Sent,
    /// A reader's: the token that the master told.
    Told(u8),
    /// A reader's, while its token is on its way.
    WrittenBack,
    /// It stores the attempt's token.
    Stored,
    /// A writer's token was not above the stored fence.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) kind: Kind,
    /// A bit for each of its names.
    pub(super) names: u8,
    pub(super) proposal: u8,
    /// The token, or the last one of a writer's block; 0 as long as a reader does not know it.
    pub(super) token: u8,
    /// Earlier attempts that were complete when it began and have a name of it, a bit each.
    pub(super) after: u8,
}

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) masters: [Master; MASTERS],
    pub(super) quorum: usize,
    pub(super) attempts: [Option<Attempt>; ATTEMPTS],
    /// Whether some fence was ever forgotten.
    pub(super) forgotten: bool,
}

impl State {
    pub(super) fn count(&self, attempt: usize, which: impl Fn(Vote) -> bool) -> usize {
        let votes = self.masters.iter().map(|master| master.votes[attempt]);
        votes.filter(|vote| which(*vote)).count()
    }

    pub(super) fn is_complete(&self, attempt: usize) -> bool {
        self.attempts[attempt].is_some_and(|one| one.token > 0)
            && self.count(attempt, |vote| vote == Vote::Stored) >= self.quorum
    }

    /// Whether all attempts of a kind that are complete `fit` the tokens of those they came after.
    pub(super) fn ordered(&self, kind: Kind, fit: impl Fn(Attempt, u8) -> bool) -> bool {
        let token = |attempt: usize| self.attempts[attempt].map_or(0, |one| one.token);
        (0..ATTEMPTS)
            .filter(|attempt| self.is_complete(*attempt))
            .filter_map(|attempt| self.attempts[attempt])
            .filter(|one| one.kind == kind)
            .all(|one| {
                let mut earlier = (0..ATTEMPTS).filter(|other| one.after & 1 << other != 0);
                earlier.all(|other| fit(one, token(other)))
            })
    }

    pub(super) fn begin(&mut self, kind: Kind, names: u8, proposal: u8, block: u8) {
        let Some(number) = self.attempts.iter().position(Option::is_none) else {
            return;
        };
        let complete = (0..number).filter(|other| {
            let shared = self.attempts[*other].is_some_and(|one| one.names & names != 0);
            shared && self.is_complete(*other)
        });
        self.attempts[number] = Some(Attempt {
            kind,
            names,
            proposal,
            token: match kind {
                Kind::Read => 0,
                Kind::Write => proposal + block - 1,
            },
            after: complete.fold(0, |bits, other| bits | 1 << other),
        });
        for master in &mut self.masters {
            master.votes[number] = Vote::Sent;
        }
    }
}

impl Master {
    fn fences(&mut self, names: u8) -> impl Iterator<Item = &mut Option<Fence>> {
        let fences = self.fences.iter_mut().enumerate();
        fences
            .filter(move |(name, _)| names & 1 << name != 0)
            .map(|(_, fence)| fence)
    }

    /// Stores a token over lower fences, and where no fence is, unless it is too far behind the clock.
    pub(super) fn declare(&mut self, names: u8, token: u8) {
        let clock = self.clock;
        for fence in self.fences(names) {
            let stores = fence.map_or(token + BEHIND > clock, |fence| fence.token < token);
            if stores {
                *fence = Some(Fence::new(token, clock));
            }
        }
    }

    /// An extension of a complete attempt. A reader's also renews the stored fences.
    pub(super) fn extend(&mut self, one: Attempt) {
        self.declare(one.names, one.token);
        let renewed = Fence::new(0, self.clock).until;
        for fence in self.fences(one.names).flatten() {
            if one.kind == Kind::Read && fence.until < renewed {
                fence.until = renewed;
            }
        }
    }

    /// Tells a reader the highest fence of its names, and stores it for all of them.
    pub(super) fn tell(&mut self, one: Attempt, rules: Rules) -> Vote {
        let clock = self.clock;
        let least = if rules.floor { clock + 1 - BEHIND } else { 0 };
        let absent = least.max(one.proposal);
        let fences = self
            .fences(one.names)
            .map(|fence| fence.map_or(absent, |fence| fence.token));
        let told = fences.max().unwrap_or(absent);
        for fence in self.fences(one.names) {
            let stores = fence.is_none_or(|fence| rules.lower_raised && fence.token < told);
            if stores {
                *fence = Some(Fence::new(if rules.lower_raised { told } else { absent }, clock));
            }
        }
        Vote::Told(told)
    }

    /// Accepts a writer's token that is above all fences of its names, or above the floor where there are none.
    pub(super) fn accept(&mut self, one: Attempt) -> Vote {
        let clock = self.clock;
        let above = self.fences(one.names).all(|fence| match fence {
            Some(stored) => one.proposal > stored.token,
            None => one.proposal + BEHIND > clock,
        });
        if !above {
            return Vote::Refused;
        }
        for fence in self.fences(one.names) {
            *fence = Some(Fence::new(one.token, clock));
        }
        Vote::Stored
    }
}
