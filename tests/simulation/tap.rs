//! Writes down every script call to the masters, and meddles with some.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::{Call, Fate, Master, Observer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::crowd;
use crate::history::{Asked, History, Kind, shortened};
use crate::plan::Class;
use crate::stored::{self, stored};
use crate::world::{World, clock_us};

pub(crate) struct Tap {
    history: History,
    names: Vec<&'static str>,
    rng: Mutex<StdRng>,
    class: Class,
    /// Whether calls may be meddled with at random at the moment.
    pub(crate) striking: AtomicBool,
    /// Fates of single calls, which are counted from 0.
    fates: BTreeMap<usize, Fate>,
    pub(crate) sent: AtomicUsize,
    /// Of the call that is being executed.
    asked: Mutex<Option<Asked>>,
}

impl Tap {
    pub(crate) fn on(world: &World, fates: &[(usize, Fate)]) -> Arc<Self> {
        let tap = Arc::new(Self {
            history: world.history.clone(),
            names: world.plan.names.clone(),
            rng: Mutex::new(StdRng::seed_from_u64(world.plan.seed ^ 0x7461_7000)),
            class: world.plan.class,
            striking: AtomicBool::new(false),
            fates: fates.iter().copied().collect(),
            sent: AtomicUsize::new(0),
            asked: Mutex::default(),
        });
        let observer: Arc<dyn Observer> = Arc::clone(&tap) as _;
        world.cluster.observe(&observer);
        tap
    }
}

impl Observer for Tap {
    fn sent(&self, call: &Call) -> Fate {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        if let Some(fate) = self.fates.get(&number) {
            let what = format!("call {number}, {call:?}: {fate:?}");
            let (forgets, forgets_fences) = (Vec::new(), Vec::new());
            let fault = Kind::Fault {
                what,
                forgets,
                forgets_fences,
            };
            self.history.note(None, fault);
            return *fate;
        }
        if !self.striking.load(Ordering::Relaxed) {
            return Fate::Delivered;
        }
        let mut rng = self.rng.lock().expect("not poisoned");
        if !rng.random_bool(0.04) {
            return Fate::Delivered;
        }
        let delay = Duration::from_millis(if rng.random_bool(0.8) {
            rng.random_range(1..60)
        } else {
            rng.random_range(60..1500)
        });
        let breaks = self.class != Class::Calm;
        match rng.random_range(0..10) {
            0 if breaks => Fate::ReplyLost,
            1 if breaks => Fate::ResetBefore,
            2 if breaks => Fate::ResetAfter,
            3..=6 => Fate::RequestDelayed(delay),
            _ => Fate::ReplyDelayed(delay),
        }
    }

    fn executing(&self, master: &Master, call: &Call) {
        if call.script == "acquire" {
            *self.asked.lock().expect("not poisoned") = asked(master, call);
        }
    }

    fn executed(&self, master: &Master, call: &Call, reply: &Result<Vec<String>, String>) {
        let mut asked = self.asked.lock().expect("not poisoned").take();
        if let Some(asked) = &mut asked {
            asked.granted = matches!(reply, Ok(words) if words.get(1).is_none_or(|word| word == "3"));
        }
        let of_crowd = call.keys.iter().any(|key| key.starts_with(crowd::PREFIX));
        if of_crowd && !call.keys.iter().any(|key| self.names.contains(&key.as_str())) {
            return;
        }
        let failed = reply.is_err();
        let owner = match call.script {
            "extend" => call.args.get(1),
            "release" if call.args[0] == "rw" => call.args.get(1),
            "acquire" | "release" | "retain" | "downgrade" => call.args.first(),
            _ => None,
        };
        let owner = match (call.script, reply) {
            ("force", Ok(words)) if words.last().is_some_and(|word| word == "done") => {
                let channels = if call.args[4] == "1" {
                    2 * (call.keys.len() / 5)
                } else {
                    0
                };
                let mut rest = call.args.iter().skip(5 + channels);
                let mut marked = Vec::new();
                while let Some(count) = rest.next() {
                    let holders = rest.by_ref().take(count.parse().expect("a number"));
                    marked.extend(holders.map(|field| shortened(field)));
                }
                marked.join(" ")
            }
            ("release", _) if call.args[0] == "0" => released_together(&call.args),
            _ => owner.map(|field| shortened(field)).unwrap_or_default(),
        };
        let now = self.history.now();
        let locks = call.keys.iter().filter(|key| self.names.contains(&key.as_str()));
        let after = locks.map(|name| stored(master, name, now));
        let after: Vec<_> = if call.script == "inspect" {
            Vec::new()
        } else {
            after.collect()
        };
        let reply = match reply {
            // It names the run of the server, which is another one whenever masters are made.
            Ok(_) if call.script == "introduce" => "recorded".to_owned(),
            Ok(words) => {
                let short = |word: &String| {
                    if word.len() > 36 {
                        shortened(word)
                    } else {
                        word.clone()
                    }
                };
                words.iter().map(short).collect::<Vec<_>>().join(" ")
            }
            Err(line) => line.clone(),
        };
        self.history.note(
            None,
            Kind::Executed {
                master: call.master,
                clock_us: clock_us(master),
                asked,
                keeps_out: keeps_out(call),
                connection: call.connection,
                script: call.script,
                owner,
                reply,
                failed,
                after,
            },
        );
    }
}

/// Waiter and ticket with which an acquire is about to ask, or `None` if it passes the queues.
fn asked(master: &Master, call: &Call) -> Option<Asked> {
    let (client, _) = call.args[0].rsplit_once(':').expect("a client and a number");
    // A job that is to be done once has a word more, behind those of any other acquire.
    let is_job = call
        .keys
        .last()
        .is_some_and(|key| key.starts_with("multilock_done:"));
    let args = &call.args[..call.args.len() - usize::from(is_job)];
    let ticket = args.get(5).map(|ticket| ticket.parse().expect("a number"));
    // Without one it is behind all others.
    let ticket: u64 = ticket.unwrap_or((1 << 53) - 1);
    // A call without a waiter has an empty word where a caption follows.
    let waiter = args.get(6).filter(|waiter| !waiter.is_empty()).map(|waiter| {
        let waiter = waiter.split(' ').next().expect("a first word");
        format!("{client}:{waiter}")
    });
    let names = call
        .keys
        .iter()
        .position(|key| key.starts_with("multilock_fence:"))?
        / 3;
    let reads = args.get(3).is_some_and(|options| options.starts_with('r'));
    // A reader may overtake other waiting readers.
    let queues: &[&str] = if reads {
        &["multilock_queue"]
    } else {
        &stored::QUEUES
    };
    let mut queues = (0..names).flat_map(|n| {
        let (name, deadlines) = (&call.keys[3 * n], &call.keys[3 * n + 2]);
        let queue = move |prefix: &&str| (format!("{prefix}:{{{name}}}"), name, deadlines);
        queues.iter().map(queue)
    });
    let ahead = queues.find_map(|(queue, name, deadlines)| {
        let (first, its) = first_that_counts(master, &queue, deadlines)?;
        let me = waiter.as_deref().unwrap_or_default();
        // A call that comes late has the ticket of then: its waiter may stand there with a smaller one by now.
        let standing = stored::ticket(master, name, me);
        let mine = ticket.min(standing.unwrap_or(ticket));
        (first != me && (its, first.as_str()) < (mine, me)).then_some(first)
    });
    (ticket > 0).then_some(Asked {
        waiter,
        ticket,
        ahead,
        granted: false,
    })
}

/// First waiter of a queue with a ticket that counts and a client that listens for calls, and its ticket.
fn first_that_counts(master: &Master, queue: &str, deadlines: &str) -> Option<(String, u64)> {
    let list = |key: &str| master.command(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
    let all = list(queue).ok().filter(|all| !all.is_empty())?;
    let deadlines: BTreeMap<String, u64> = pairs(list(deadlines).ok()?).collect();
    let (now, channels) = (clock_us(master) / 1000, master.channels());
    pairs(all).find(|(waiter, _)| {
        let client = waiter.split(':').next().expect("a client");
        let deadline = deadlines.get(waiter).copied().unwrap_or_default();
        deadline > now && channels.contains(&format!("multilock:{client}"))
    })
}

/// Members and the whole part of their scores, as a server tells them in turn.
fn pairs(words: Vec<String>) -> impl Iterator<Item = (String, u64)> {
    let mut words = words.into_iter();
    std::iter::from_fn(move || {
        let member = words.next()?;
        let score = words.next()?;
        Some((member, score.split('.').next()?.parse().ok()?))
    })
}

/// The owners of a batch of releases: after a zero come, for each, its field, how many names it has, its layout; and if it is
/// announced, a word for that and as many channels.
fn released_together(args: &[String]) -> String {
    let mut owners = Vec::new();
    let mut rest = &args[1..];
    while let [owner, names, _, behind @ ..] = rest {
        owners.push(shortened(owner));
        let is_announced = behind.first().is_some_and(|word| word == "announce");
        let channels = if is_announced {
            1 + names.parse::<usize>().expect("a number")
        } else {
            0
        };
        rest = &behind[channels..];
    }
    owners.join(" ")
}

fn keeps_out(call: &Call) -> Duration {
    let ms = call.args.get(1).filter(|_| call.script == "force");
    Duration::from_millis(ms.and_then(|ms| ms.parse().ok()).unwrap_or(0))
}
