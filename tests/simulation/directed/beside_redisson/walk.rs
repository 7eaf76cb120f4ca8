//! Random steps of ours and theirs on one master, in memory or a server.

use std::time::Duration;

use multilock_test_support::scripts::{ACQUIRE, EXTEND};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use super::counts::Counts;
use super::ours::{Message, READERS};
use super::theirs::{LOCKS, NAME, Theirs};

/// Server that the clients of both sides use.
pub(crate) trait Master {
    /// The reply as a flat list of texts.
    async fn run(&self, words: &[&str]) -> Vec<String>;

    async fn run_script(&self, script: &str, keys: &[&str], args: &[&str]) -> Vec<String>;
}

const EXCLUSION: &str = "mutual exclusion";

#[derive(Clone)]
enum Who {
    Ours { owner: String, was_written: bool },
    Theirs(Theirs),
}

#[derive(Clone)]
struct Hold {
    who: Who,
    reads: bool,
    /// By the master's clock, in ms.
    until: u64,
}

impl Hold {
    fn is_ours(&self) -> bool {
        matches!(self.who, Who::Ours { .. })
    }
}

/// One of ours that is over, but was not released; and whether somebody has had the name alone since.
struct Former {
    owner: String,
    reads: bool,
    was_passed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    /// The longest lease: 30 s in time that costs nothing.
    pub(crate) longest: Duration,
}

struct Walk<'a, M> {
    master: &'a M,
    longest: Duration,
    random: StdRng,
    counts: &'a mut Counts,
    holds: Vec<Hold>,
    former: Vec<Former>,
    /// Messages that a broken connection may still deliver, any number of times.
    late: Vec<Message>,
    /// Whether their locks are read/write locks. The others exclude each other, and Redisson's two families know
    /// nothing of one another.
    read_write: bool,
    made: u64,
    steps: Vec<String>,
}

impl<M: Master> Walk<'_, M> {
    async fn now(&self) -> u64 {
        let time = self.master.run(&["TIME"]).await;
        let part = |at: usize| time[at].parse::<u64>().expect("digits");
        part(0) * 1000 + part(1) / 1000
    }

    fn note(&mut self, what: impl Into<String>) {
        self.steps.push(what.into());
    }

    /// Up to a part of the longest.
    fn part(&mut self, of: u32) -> Duration {
        let ms = u64::try_from((self.longest / of).as_millis()).expect("short");
        Duration::from_millis(self.random.random_range(1..=ms))
    }

    /// Short ones for the most part, so that the name is free at times.
    fn lease(&mut self) -> Duration {
        let of = if self.random.random_bool(0.8) { 8 } else { 1 };
        self.longest / 150 + self.part(of)
    }

    fn keep(&mut self, message: Message) {
        if self.late.len() == 64 {
            let at = self.random.random_range(0..self.late.len());
            self.late.swap_remove(at);
        }
        self.late.push(message);
    }

    /// Adds a hold, and notes for former holds that the name has been held alone since.
    fn granted(&mut self, hold: Hold) {
        let is_alone = !hold.reads || !hold.is_ours();
        for former in &mut self.former {
            former.was_passed |= is_alone || !former.reads;
        }
        self.holds.push(hold);
    }

    async fn lock_ours(&mut self) {
        let (reads, lease) = (self.random.random_bool(0.6), self.lease());
        self.made += 1;
        let owner = format!("00000000-0000-8000-8000-000000000000:{}", self.made);
        let acquire = Message::acquire(&owner, reads, lease);
        let before = self.now().await;
        let granted = acquire.run(self.master).await;
        self.note(format!("ours {} reads {reads}, {lease:?}: {granted}", self.made));
        self.keep(acquire);
        let extension = Message::extend(&owner, reads, lease);
        self.keep(extension);
        if !granted {
            self.counts.refused += 1;
            let release = self.release_of(&owner);
            self.keep(release);
            return;
        }
        self.counts.ours += 1;
        let until = before + millis(lease);
        let who = Who::Ours {
            owner,
            was_written: !reads,
        };
        self.granted(Hold { who, reads, until });
    }

    async fn lock_theirs(&mut self) {
        let lease = self.lease();
        let kinds: Vec<_> = LOCKS
            .iter()
            .filter(|kind| kind.is_read_write == self.read_write)
            .collect();
        let kind = kinds[self.random.random_range(0..kinds.len())];
        self.made += 1;
        let theirs = Theirs::new(kind, self.made);
        let before = self.now().await;
        let granted = theirs.lock(self.master, lease).await;
        self.note(format!("{} {}, {lease:?}: {granted}", kind.name, self.made));
        if !granted {
            self.counts.refused += 1;
            return;
        }
        self.counts.theirs += 1;
        let until = before + millis(lease);
        self.granted(Hold {
            who: Who::Theirs(theirs),
            reads: kind.reads,
            until,
        });
    }

    fn any(&mut self) -> Option<usize> {
        (!self.holds.is_empty()).then(|| self.random.random_range(0..self.holds.len()))
    }

    fn release_of(&mut self, owner: &str) -> Message {
        Message::release(owner, self.random.random_bool(0.5))
    }

    async fn release(&mut self) {
        let Some(at) = self.any() else { return };
        let hold = self.holds.swap_remove(at);
        let (found, what) = match hold.who {
            Who::Ours { owner, .. } => {
                let release = self.release_of(&owner);
                let found = release.run(self.master).await;
                self.keep(release);
                (found, format!("release {owner}"))
            }
            Who::Theirs(theirs) => {
                let found = theirs.unlock(self.master).await;
                (found, format!("unlock {}", theirs.field()))
            }
        };
        self.note(format!("{what}: {found}"));
    }

    async fn extend(&mut self) {
        let Some(at) = self.any() else { return };
        let lease = self.lease();
        let Who::Ours { owner, .. } = self.holds[at].who.clone() else {
            return;
        };
        let extension = Message::extend(&owner, self.holds[at].reads, lease);
        let before = self.now().await;
        let continued = extension.run(self.master).await;
        self.note(format!("extend {owner}, {lease:?}: {continued}"));
        self.keep(extension);
        if continued {
            let until = before + millis(lease);
            self.holds[at].until = self.holds[at].until.max(until);
            return;
        }
        // Its readers were lost: it takes the name again, as a client does that is valid still.
        let again = Message::acquire(&owner, self.holds[at].reads, lease);
        let granted = again.run(self.master).await;
        self.note(format!("again {owner}: {granted}"));
        if !granted && self.holds[at].until > self.now().await {
            self.fail(EXCLUSION, "a reader that was lost is kept out");
        }
    }

    async fn downgrade(&mut self) {
        let writes = |hold: &Hold| hold.is_ours() && !hold.reads;
        let Some(at) = self.holds.iter().position(writes) else {
            return;
        };
        let hold = &mut self.holds[at];
        let Who::Ours { owner, .. } = hold.who.clone() else {
            return;
        };
        hold.reads = true;
        self.counts.downgraded += 1;
        let downgrade = Message::downgrade(&owner, self.longest);
        self.keep(downgrade.clone());
        let is_told = self.random.random_bool(0.5);
        let found = is_told && downgrade.run(self.master).await;
        self.note(format!("downgrade {owner}, told: {is_told}, {found}"));
    }

    async fn deliver_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.late.len());
        let message = self.late[at].clone();
        let done = message.run(self.master).await;
        self.counts.late += 1;
        let head = message.script.len();
        self.note(format!(
            "late {head} {} {:?}: {done}",
            message.owner, message.args
        ));
        let revived = |former: &Former| former.owner == message.owner && former.was_passed;
        if message.script == EXTEND && done && self.former.iter().any(revived) {
            self.fail(
                "a loss is told",
                "one continues after somebody else has had it alone",
            );
        }
    }

    /// The holds that are over, for whichever reason but their release.
    fn end(&mut self, over: impl Fn(&Hold) -> bool) -> usize {
        let (over, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.holds).into_iter().partition(over);
        self.holds = stay;
        for hold in &over {
            let Who::Ours { owner, .. } = &hold.who else {
                continue;
            };
            self.late
                .retain(|message| message.owner != *owner || message.script != ACQUIRE);
            let release = self.release_of(owner);
            let extension = Message::extend(owner, hold.reads, self.longest);
            self.keep(release);
            self.keep(extension);
            self.former.push(Former {
                owner: owner.clone(),
                reads: hold.reads,
                was_passed: false,
            });
        }
        over.len()
    }

    /// An operator of theirs forces the lock.
    async fn delete(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        self.master.run(&["DEL", NAME]).await;
        self.note("deleted");
        self.counts.deleted += 1;
        self.end(|_| true);
    }

    async fn lose_readers(&mut self) {
        if self.master.run(&["DEL", READERS]).await == ["1"] {
            self.note("readers lost");
            self.counts.lost += 1;
        }
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..20 => self.lock_ours().await,
            20..36 => self.lock_theirs().await,
            36..52 => self.release().await,
            52..60 => self.extend().await,
            60..68 => self.downgrade().await,
            68..84 => self.deliver_late().await,
            84..86 => self.delete().await,
            86..88 => self.lose_readers().await,
            _ => {
                let of = if self.random.random_bool(0.1) { 1 } else { 10 };
                let time = self.part(of);
                sleep(time).await;
                self.note("time passes");
            }
        }
        let now = self.now().await;
        self.counts.lapsed += self.end(|hold| hold.until <= now);
        self.counts.passed += self.former.iter().filter(|former| former.was_passed).count();
        let drop_some = self.former.len().saturating_sub(16);
        self.former.drain(..drop_some);
        self.look().await;
    }

    fn fail(&self, property: &str, what: &str) -> ! {
        for step in self.steps.iter().rev().take(40).rev() {
            println!("{step}");
        }
        panic!("violated: {property}: {what}");
    }

    async fn look(&mut self) {
        let ours = self.holds.iter().filter(|hold| hold.is_ours());
        let alone = self
            .holds
            .iter()
            .filter(|hold| hold.is_ours() && !hold.reads)
            .count();
        let (ours, all) = (ours.count(), self.holds.len());
        if ours > 0 && (ours < all || alone > 0 && all > 1) {
            self.fail(EXCLUSION, "two are in");
        }
        self.counts.together += usize::from(ours > 1);
        let fields = self.master.run(&["HGETALL", NAME]).await;
        let left = self.master.run(&["PTTL", NAME]).await;
        let left: u64 = left[0].parse().unwrap_or(0);
        let now = self.now().await;
        self.end(|hold| hold.until <= now);
        let value = |field: &str| {
            let pair = fields.chunks_exact(2).find(|pair| pair[0] == field);
            pair.map(|pair| pair[1].as_str())
        };
        for hold in self.holds.iter().filter(|hold| hold.is_ours()) {
            let Who::Ours { owner, was_written } = &hold.who else {
                continue;
            };
            let is_written = value(owner).is_some() && value("mode") == Some("write");
            let read_until = value("multilock").and_then(|until| until.parse::<u64>().ok());
            // Its readers may be lost.
            let is_read =
                value("mode") == Some("write") && read_until.is_some_and(|until| until >= hold.until);
            let is_fit = if hold.reads {
                is_read || *was_written && is_written
            } else {
                is_written && read_until.is_none()
            };
            if !is_fit || left + now < hold.until {
                self.fail(
                    "covered",
                    &format!("{owner} until {} under {fields:?}", hold.until),
                );
            }
        }
        let holds = self.holds.iter().filter_map(|hold| match &hold.who {
            Who::Theirs(theirs) => Some(theirs.clone()),
            Who::Ours { .. } => None,
        });
        for theirs in holds.collect::<Vec<_>>() {
            if !theirs.holds(self.master).await {
                // It may be over by now.
                let now = self.now().await;
                let is_over = |hold: &Hold| {
                    matches!(&hold.who, Who::Theirs(its) if its.field() == theirs.field())
                        && hold.until <= now
                };
                if !self.holds.iter().any(is_over) {
                    self.fail(EXCLUSION, &format!("{} was taken away", theirs.field()));
                }
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("short")
}

/// Random steps; in the end all leave, and nothing is left when the longest lease is over.
pub(crate) async fn run(master: &impl Master, plan: Plan, counts: &mut Counts) {
    let mut walk = Walk {
        master,
        longest: plan.longest,
        random: StdRng::seed_from_u64(plan.seed),
        counts,
        holds: Vec::new(),
        former: Vec::new(),
        late: Vec::new(),
        read_write: plan.seed.is_multiple_of(2),
        made: 0,
        steps: vec![format!("seed {}", plan.seed)],
    };
    for _ in 0..plan.steps {
        walk.step().await;
    }
    while !walk.holds.is_empty() {
        walk.release().await;
    }
    sleep(2 * plan.longest).await;
    // Its token has no end.
    master.run(&["DEL", "redisson_lock_token:{a}"]).await;
    let left = master.run(&["KEYS", "*"]).await;
    if !left.is_empty() {
        walk.fail("nothing is left", &format!("{left:?}"));
    }
}
