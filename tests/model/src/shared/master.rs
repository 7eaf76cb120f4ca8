//! A master: the effect of the scripts on a key that many may read or one may write, each in one step.

use std::hash::{Hash, Hasher};

use super::line::Verb;
use super::scope::Rules;
use super::state::{ATTEMPTS, CLIENTS, Kind, Word};

pub(super) const FIELDS: usize = CLIENTS * ATTEMPTS;

/// The key of the name on a master, and the time until the master has a vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Master {
    /// `None` while the key does not exist.
    pub(super) mode: Option<Kind>,
    /// Ticks until the key expires.
    pub(super) ttl: u8,
    /// The owner fields: 0 if there is none, else one more than the ticks until its deadline. A field may stay after its
    /// deadline while others read. A writer has no deadline but the key's.
    fields: [u8; FIELDS],
    /// Ticks for which it has no vote.
    pub(super) quarantine: u8,
}

// Hashed in one go: hashing is most of the cost of an exploration.
impl Hash for Master {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mode = self.mode.map_or(0, |kind| 1 + kind as u64);
        let rest = mode << 8 | u64::from(self.ttl) << 4 | u64::from(self.quarantine);
        let bits = self
            .fields
            .iter()
            .fold(rest, |bits, field| bits << 4 | u64::from(*field));
        hasher.write_u64(bits);
    }
}

impl Master {
    pub(super) fn has(&self, field: usize) -> bool {
        self.fields[field] > 0
    }

    /// The ticks until the field's deadline. Only for fields that are there.
    fn deadline(&self, field: usize) -> u8 {
        self.fields[field] - 1
    }

    /// The ticks for which the field keeps out every owner that must not hold beside it.
    pub(super) fn cover(&self, field: usize) -> u8 {
        match self.mode {
            Some(Kind::Read) if self.has(field) => self.deadline(field).min(self.ttl),
            Some(Kind::Write) if self.has(field) => self.ttl,
            _ => 0,
        }
    }

    /// The ticks until the last of the readers' deadlines.
    pub(super) fn last_deadline(&self) -> u8 {
        self.fields
            .iter()
            .max()
            .map_or(0, |field| field.saturating_sub(1))
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = usize> {
        (0..FIELDS).filter(|field| self.has(*field))
    }

    pub(super) fn execute(&mut self, verb: Verb, field: usize, lease: u8, rules: &Rules) -> Word {
        match verb {
            Verb::AcquireRead if self.mode == Some(Kind::Write) => return Word::Refused,
            Verb::AcquireRead => {
                self.mode = Some(Kind::Read);
                self.read(field, lease, rules);
            }
            Verb::AcquireWrite => return self.acquire_to_write(field, lease, rules),
            Verb::KeepRead | Verb::KeepWrite if !self.has(field) => {
                let readable = verb == Verb::KeepRead && self.mode == Some(Kind::Read);
                let absent = self.mode.is_none() || readable;
                return if absent { Word::Absent } else { Word::Refused };
            }
            Verb::KeepRead => {
                self.turn_to_read(field);
                self.read(field, lease, rules);
            }
            Verb::KeepWrite if self.mode == Some(Kind::Read) => {
                self.read(field, lease, rules);
                if !rules.late_extension_reads {
                    self.mode = Some(Kind::Write);
                }
            }
            Verb::KeepWrite => self.ttl = self.ttl.max(lease),
            Verb::Downgrade => self.downgrade(field, lease, rules),
            Verb::Release => self.release(field, rules),
        }
        Word::Granted
    }

    fn acquire_to_write(&mut self, field: usize, lease: u8, rules: &Rules) -> Word {
        let own = match self.mode {
            None => true,
            Some(Kind::Write) => self.has(field),
            // A late acquire must not undo the downgrade.
            Some(Kind::Read) => self.has(field) && !rules.late_acquire_refused,
        };
        if !own {
            return Word::Refused;
        }
        self.mode = Some(Kind::Write);
        self.fields[field] = 1;
        self.ttl = self.ttl.max(lease);
        Word::Granted
    }

    /// A reader's field lives for its lease, and the key for as long as any of them.
    fn read(&mut self, field: usize, lease: u8, rules: &Rules) {
        self.fields[field] = self.fields[field].max(lease + 1);
        self.ttl = if rules.longest_lease_stays {
            self.ttl.max(lease)
        } else {
            lease
        };
    }

    /// A writer's field becomes a reader's. It keeps the remaining time of the key.
    fn turn_to_read(&mut self, field: usize) {
        if self.mode == Some(Kind::Write) {
            self.mode = Some(Kind::Read);
            self.fields[field] = self.ttl + 1;
        }
    }

    fn downgrade(&mut self, field: usize, lease: u8, rules: &Rules) {
        if !self.has(field) {
            return;
        }
        // A downgrade that was done before must not lengthen the key's life: no reader's deadline would stand for that.
        if self.mode == Some(Kind::Write) || !rules.downgraded_once {
            self.ttl = self.ttl.max(lease);
        }
        self.turn_to_read(field);
    }

    fn release(&mut self, field: usize, rules: &Rules) {
        if !self.has(field) {
            return;
        }
        self.fields[field] = 0;
        if self.mode == Some(Kind::Write) || !rules.leaver_spares_others {
            self.free();
        } else if rules.leaver_settles {
            self.settle();
        } else if self.fields().next().is_none() {
            self.free();
        }
    }

    /// The key ends with the last remaining reader.
    fn settle(&mut self) {
        for field in &mut self.fields {
            // A reader's deadline has passed.
            if *field == 1 {
                *field = 0;
            }
        }
        self.ttl = self.ttl.min(self.last_deadline());
        if self.ttl == 0 {
            self.free();
        }
    }

    /// Deletes the key.
    pub(super) fn free(&mut self) {
        *self = Self {
            quarantine: self.quarantine,
            ..Self::default()
        };
    }

    pub(super) fn tick(&mut self) {
        self.quarantine = self.quarantine.saturating_sub(1);
        self.ttl = self.ttl.saturating_sub(1);
        if self.ttl == 0 {
            self.free();
        }
        for field in &mut self.fields {
            *field = if *field > 1 { *field - 1 } else { *field };
        }
    }
}
