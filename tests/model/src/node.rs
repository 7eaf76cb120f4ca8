//! A node: the effect of the scripts, each in one step.

use std::hash::{Hash, Hasher};

use crate::link::{Answer, Request, Verb, Word};
use crate::scope::Scope;
use crate::state::Owner;

/// The data of a node under the name, and the time until the node has a vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) holder: Option<Owner>,
    /// Ticks until the hold expires.
    pub(crate) ttl: u8,
    /// The hold count, where nodes count.
    pub(crate) count: u8,
    pub(crate) fence: u8,
    /// Owners that were forced out, a bit each.
    pub(crate) revoked: u8,
    /// Ticks for which it has no vote.
    pub(crate) quarantine: u8,
    /// Least token of a proposal since its restart.
    pub(crate) floor: u8,
    /// Somebody's force is on its way here.
    pub(crate) force_due: bool,
}

// Hashed in one go: hashing is most of the cost of an exploration.
impl Hash for Node {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let holder = self.holder.map_or(0, Owner::bit);
        let due = u8::from(self.force_due);
        let bytes = [
            holder,
            self.ttl,
            self.count,
            self.fence,
            self.revoked,
            self.quarantine,
            self.floor,
            due,
        ];
        hasher.write_u64(u64::from_le_bytes(bytes));
    }
}

/// Result of a request.
pub(crate) struct Executed {
    pub(crate) answer: Answer,
    pub(crate) ttl_shrank: bool,
}

impl Node {
    /// Runs a request. `lease` is the requested lease by this node's clock, in ticks.
    pub(crate) fn execute(&mut self, request: Request, lease: u8, scope: &Scope) -> Executed {
        let before = (self.holder, self.ttl);
        let answer = self.answer(request, lease, scope);
        Executed {
            answer,
            ttl_shrank: before.0 == self.holder && self.ttl < before.1,
        }
    }

    fn answer(&mut self, request: Request, lease: u8, scope: &Scope) -> Answer {
        let rules = &scope.rules;
        let Request {
            verb, owner, token, ..
        } = request;
        let highest = self.fence;
        let say = |word, accepted| Answer {
            word,
            accepted,
            highest,
        };
        let ours = self.holder == Some(owner);
        match verb {
            Verb::Release | Verb::Leave if !ours => return say(Word::Absent, false),
            Verb::Release => {
                self.free();
                return say(Word::Granted, false);
            }
            Verb::Leave => {
                self.count -= 1;
                if self.count == 0 {
                    self.free();
                }
                return say(Word::Granted, false);
            }
            Verb::Raise if !rules.raise_needs_owner => {
                let accepted = self.accept(request, scope);
                return say(Word::Granted, accepted);
            }
            _ if self.revoked & owner.bit() != 0 => return say(Word::Revoked, false),
            _ => {}
        }
        let creates = matches!(verb, Verb::Acquire | Verb::Retake | Verb::Enter)
            || !rules.extend_creates_nothing && matches!(verb, Verb::Extend | Verb::ExtendShortly);
        match self.holder {
            None if creates => self.take(owner, lease),
            None => return say(Word::Absent, false),
            Some(_) if !ours => {
                let accepted = !rules.accept_with_grant && self.accept(request, scope);
                return say(Word::Refused, accepted);
            }
            Some(_) if rules.lease_only_raised => self.ttl = self.ttl.max(lease),
            Some(_) => self.ttl = lease,
        }
        match verb {
            Verb::Enter if ours => self.count += 1,
            Verb::Extend | Verb::ExtendShortly => {
                self.fence = self.fence.max(token);
                return say(Word::Granted, true);
            }
            Verb::Acquire if !rules.one_token_for_all => {
                self.fence += 1;
                return Answer {
                    highest: self.fence,
                    ..say(Word::Granted, true)
                };
            }
            _ => {}
        }
        let word = if verb == Verb::Retake {
            Word::Retaken
        } else {
            Word::Granted
        };
        let accepted = self.accept(request, scope);
        say(word, accepted)
    }

    fn accept(&mut self, request: Request, scope: &Scope) -> bool {
        let Request { verb, token, .. } = request;
        let accepted = token > self.fence || !scope.rules.accept_strictly && token == self.fence;
        let proposed = matches!(verb, Verb::Acquire | Verb::Raise);
        let stored = if proposed && scope.rules.block_stored {
            token + scope.block - 1
        } else {
            token
        };
        if accepted {
            self.fence = stored;
        }
        accepted
    }

    fn take(&mut self, owner: Owner, lease: u8) {
        self.holder = Some(owner);
        self.ttl = lease;
        self.count = 1;
    }

    /// Deletes the hold of any owner.
    pub(crate) fn free(&mut self) {
        self.holder = None;
        self.ttl = 0;
        self.count = 0;
    }

    pub(crate) fn tick(&mut self) {
        self.quarantine = self.quarantine.saturating_sub(1);
        if self.holder.is_some() {
            self.ttl -= 1;
            if self.ttl == 0 {
                self.free();
            }
        }
    }
}
