//! A random walk: our scripts beside those of `RReadWriteLock` on one key of a real server, in any order, with requests
//! of ours that come late or twice, and time that passes in jumps. After every step each hold that its client may believe
//! in is looked at: it is covered by the key, and nobody writes beside another one.
//!
//! Time is moved on the server: everything that ends is brought nearer by as much. Leases are at most the watchdog's.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Value, from_redis_value};

use crate::support::Server;
use crate::support::by_hand::{ByHand, is_done};
use crate::support::foreign::read_write::{Calls, Mode, WATCHDOG};

const SEEDS: u64 = 4;
const STEPS: usize = 5_000;
const NAME: &str = "a";
/// The rounding of times.
const SLACK_MS: i64 = 3;
/// So many at once at most: enough to be in each other's way.
const MOST: usize = 6;

/// Has so many ms pass.
const PASS: &str = "
    for _, key in ipairs(redis.call('KEYS', '*')) do
        local left = redis.call('PTTL', key) - ARGV[1]
        if redis.call('TYPE', key)['ok'] == 'zset' then
            for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
                redis.call('ZINCRBY', key, -ARGV[1], member)
            end
        end
        if left > 0 then redis.call('PEXPIRE', key, left) else redis.call('DEL', key) end
    end
    return 1";

#[derive(Clone, Debug)]
enum Client {
    Ours {
        hand: ByHand,
        /// Whether the server may not have heard of its downgrade.
        is_downgraded: bool,
    },
    Theirs {
        owner: String,
        calls: Calls,
    },
}

/// A hold in which its client may believe until then, in ms of the server's clock and what was passed over.
#[derive(Clone, Debug)]
struct Hold {
    client: Client,
    mode: Mode,
    /// Of each of its entries; one for ours.
    until: Vec<i64>,
}

impl Hold {
    fn end(&self) -> i64 {
        self.until.iter().copied().max().unwrap_or(0)
    }

    fn field(&self) -> String {
        match &self.client {
            Client::Ours { hand, .. } => hand.field().to_owned(),
            Client::Theirs { calls, .. } => calls.field(),
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self.client, Client::Ours { .. })
    }
}

/// What was seen right after a step, in the same transaction.
struct Seen {
    before: i64,
    after: i64,
    answer: Value,
    fields: Vec<(String, String)>,
    left: i64,
}

/// How often each thing came about, so that none of it is missed unnoticed.
#[derive(Debug, Default)]
struct Counts {
    ours_granted: usize,
    theirs_granted: usize,
    refused: usize,
    late: usize,
    together: usize,
    downgraded: usize,
    lapsed: usize,
}

struct Walk {
    commands: MultiplexedConnection,
    random: StdRng,
    holds: Vec<Hold>,
    /// What a broken connection may still deliver.
    late: Vec<Cmd>,
    /// So many ms were passed over.
    passed: i64,
    made: u64,
    /// So many may be in now, so that at times nobody is, and whoever comes may write.
    most: usize,
    counts: Counts,
}

fn ms(time: &Value) -> i64 {
    let (seconds, micros): (i64, i64) = from_redis_value(time.clone()).expect("a time");
    seconds * 1000 + micros / 1000
}

impl Walk {
    async fn run(&mut self, step: Cmd) -> Seen {
        let mut transaction = redis::pipe();
        transaction.atomic().cmd("TIME").add_command(step);
        transaction
            .cmd("HGETALL")
            .arg(NAME)
            .cmd("PTTL")
            .arg(NAME)
            .cmd("TIME");
        let parts: Vec<Value> = transaction
            .query_async(&mut self.commands)
            .await
            .expect("an answer");
        let [before, answer, fields, left, after] = parts.try_into().expect("five answers");
        Seen {
            before: ms(&before) + self.passed,
            after: ms(&after) + self.passed,
            answer,
            fields: from_redis_value(fields).expect("a hash, or nothing"),
            left: from_redis_value(left).expect("a number"),
        }
    }

    /// Short ones for the most part, so that the key is free at times.
    fn lease(&mut self) -> Duration {
        let longest = if self.random.random_bool(0.8) {
            4_000
        } else {
            30_000
        };
        Duration::from_millis(self.random.random_range(200..=longest))
    }

    fn mode(&mut self) -> Mode {
        let likely = if self.holds.is_empty() { 0.3 } else { 0.7 };
        if self.random.random_bool(likely) {
            Mode::Read
        } else {
            Mode::Write
        }
    }

    /// One of the holds, of ours or of theirs.
    fn any(&mut self, ours: bool) -> Option<usize> {
        let fit: Vec<usize> = (0..self.holds.len())
            .filter(|at| self.holds[*at].is_ours() == ours)
            .collect();
        (!fit.is_empty()).then(|| fit[self.random.random_range(0..fit.len())])
    }

    fn keep_for_later(&mut self, command: &Cmd) {
        if self.late.len() == 64 {
            let at = self.random.random_range(0..self.late.len());
            self.late.swap_remove(at);
        }
        self.late.push(command.clone());
    }

    async fn acquire_ours(&mut self) -> Option<Seen> {
        if self.holds.len() >= self.most {
            return None;
        }
        let (mode, lease) = (self.mode(), self.lease());
        self.made += 1;
        let field = format!("00000000-0000-8000-8000-000000000000:{}", self.made);
        let hand = ByHand::new(NAME, &field, mode);
        let command = hand.acquire(lease);
        self.keep_for_later(&command);
        let (extension, downgrade) = (hand.extend(lease), hand.downgrade(lease));
        self.keep_for_later(&extension);
        let seen = self.run(command).await;
        if is_done(&seen.answer) {
            self.counts.ours_granted += 1;
            self.holds.push(Hold {
                client: Client::Ours {
                    hand,
                    is_downgraded: false,
                },
                mode,
                until: vec![seen.before + millis(lease)],
            });
        } else {
            self.counts.refused += 1;
            // A rollback, sooner or later; and what was meant for a hold that never was.
            let release = hand.release();
            self.keep_for_later(&release);
            self.keep_for_later(&downgrade);
        }
        Some(seen)
    }

    /// By a new thread; or by one that is in already, to read.
    async fn lock_theirs(&mut self) -> Option<Seen> {
        let lease = self.lease();
        let again = if self.random.random_bool(0.4) {
            self.any(false)
        } else {
            None
        };
        if let Some(at) = again {
            let Client::Theirs { owner, .. } = self.holds[at].client.clone() else {
                return None;
            };
            let reads = |hold: &Hold| {
                matches!(&hold.client, Client::Theirs { owner: its, .. } if *its == owner)
                    && hold.mode == Mode::Read
            };
            let inner = self.holds.iter().position(reads);
            // A writer that reads twice would shorten its own key, by leaving once.
            if self.holds[at].mode == Mode::Write && inner.is_some() {
                return None;
            }
            if self.holds[at].mode == Mode::Read
                && self.holds.iter().any(|hold| {
                    matches!(&hold.client, Client::Theirs { owner: its, .. } if *its == owner)
                        && hold.mode == Mode::Write
                })
            {
                return None;
            }
            let calls = Calls::new(NAME, &owner, Mode::Read);
            let seen = self.run(calls.lock(lease)).await;
            assert_eq!(seen.answer, Value::Nil, "its own");
            let until = seen.before + millis(lease);
            match inner {
                Some(inner) => self.holds[inner].until.push(until),
                None => self.holds.push(Hold {
                    client: Client::Theirs { owner, calls },
                    mode: Mode::Read,
                    until: vec![until],
                }),
            }
            return Some(seen);
        }
        if self.holds.len() >= self.most {
            return None;
        }
        let mode = self.mode();
        self.made += 1;
        let owner = format!("00000000-0000-4000-8000-000000000000:{}", self.made);
        let calls = Calls::new(NAME, &owner, mode);
        let seen = self.run(calls.lock(lease)).await;
        if seen.answer == Value::Nil {
            self.counts.theirs_granted += 1;
            self.holds.push(Hold {
                client: Client::Theirs { owner, calls },
                mode,
                until: vec![seen.before + millis(lease)],
            });
        } else {
            self.counts.refused += 1;
        }
        Some(seen)
    }

    async fn renew(&mut self, ours: bool) -> Option<Seen> {
        let at = self.any(ours)?;
        let hold = self.holds[at].clone();
        match hold.client {
            Client::Ours { hand, is_downgraded } => {
                let lease = self.lease();
                let hand = if is_downgraded { hand.reading() } else { hand };
                let command = hand.extend(lease);
                self.keep_for_later(&command);
                let seen = self.run(command).await;
                assert!(is_done(&seen.answer), "it is held: {:?}", seen.answer);
                self.holds[at].until = vec![hold.until[0].max(seen.before + millis(lease))];
                Some(seen)
            }
            Client::Theirs { calls, .. } => {
                let seen = self.run(calls.renew()).await;
                assert_eq!(seen.answer, Value::Int(1), "it is held");
                // Of an entry that is over, nothing is left that could be renewed.
                let is_there = |until: &&mut i64| **until > seen.after + SLACK_MS;
                for until in self.holds[at].until.iter_mut().filter(is_there) {
                    *until = seen.before + millis(WATCHDOG);
                }
                Some(seen)
            }
        }
    }

    async fn release(&mut self, ours: bool) -> Option<Seen> {
        let at = self.any(ours)?;
        let hold = self.holds[at].clone();
        match hold.client {
            Client::Ours { hand, .. } => {
                self.holds.swap_remove(at);
                let command = hand.release();
                self.keep_for_later(&command);
                let seen = self.run(command).await;
                assert!(is_done(&seen.answer), "it was held: {:?}", seen.answer);
                Some(seen)
            }
            Client::Theirs { calls, .. } => {
                self.holds[at].until.pop();
                if self.holds[at].until.is_empty() {
                    self.holds.swap_remove(at);
                }
                let seen = self.run(calls.unlock()).await;
                assert_ne!(seen.answer, Value::Nil, "it was held");
                Some(seen)
            }
        }
    }

    /// Of one that writes. Its word may not arrive, or late.
    async fn downgrade(&mut self) -> Option<Seen> {
        let at = self.any(true)?;
        if self.holds[at].mode == Mode::Read {
            return None;
        }
        let lease = self.lease();
        let Client::Ours { hand, is_downgraded } = &mut self.holds[at].client else {
            return None;
        };
        *is_downgraded = true;
        let command = hand.downgrade(lease);
        self.holds[at].mode = Mode::Read;
        self.counts.downgraded += 1;
        self.keep_for_later(&command);
        if self.random.random_bool(0.5) {
            return None;
        }
        let seen = self.run(command).await;
        assert!(is_done(&seen.answer), "it is held: {:?}", seen.answer);
        Some(seen)
    }

    async fn deliver_late(&mut self) -> Option<Seen> {
        if self.late.is_empty() {
            return None;
        }
        let at = self.random.random_range(0..self.late.len());
        let command = self.late[at].clone();
        self.counts.late += 1;
        Some(self.run(command).await)
    }

    async fn pass(&mut self) -> Option<Seen> {
        let most = if self.random.random_bool(0.1) {
            30_000
        } else {
            3_000
        };
        let ms = self.random.random_range(0..most);
        let mut command = redis::cmd("EVAL");
        command.arg(PASS).arg(0).arg(ms);
        let mut seen = self.run(command).await;
        self.passed += ms;
        seen.before += ms;
        seen.after += ms;
        Some(seen)
    }

    /// A process dies, and leaves what it has.
    fn crash(&mut self) {
        if !self.holds.is_empty() {
            let at = self.random.random_range(0..self.holds.len());
            self.holds.swap_remove(at);
        }
    }

    async fn step(&mut self) -> Option<Seen> {
        if self.random.random_bool(0.1) {
            self.most = self.random.random_range(0..=MOST);
        }
        // Few of ours get in to write: many of those go on reading.
        let writes = |hold: &Hold| hold.is_ours() && hold.mode == Mode::Write;
        if self.holds.iter().any(writes) && self.random.random_bool(0.3) {
            return self.downgrade().await;
        }
        match self.random.random_range(0..100) {
            0..20 => self.acquire_ours().await,
            20..40 => self.lock_theirs().await,
            40..48 => self.renew(true).await,
            48..54 => self.renew(false).await,
            54..62 => self.release(true).await,
            62..70 => self.release(false).await,
            70..80 => self.downgrade().await,
            80..88 => self.deliver_late().await,
            88..98 => self.pass().await,
            _ => {
                self.crash();
                None
            }
        }
    }

    /// Whoever may believe in nothing any more leaves its hold as it is.
    fn forget_what_is_over(&mut self, now: i64) {
        for hold in &mut self.holds {
            // Of an entry that is over the count stays: it is left all the same.
            if hold.end() <= now + SLACK_MS {
                hold.until.clear();
            }
        }
        let before = self.holds.len();
        self.holds.retain(|hold| !hold.until.is_empty());
        self.counts.lapsed += before - self.holds.len();
    }

    fn check(&mut self, seen: &Seen) {
        self.forget_what_is_over(seen.after);
        let of = |field: &str| seen.fields.iter().find(|(its, _)| its == field);
        let mode = of("mode").map(|(_, mode)| mode.as_str());
        for hold in &self.holds {
            let what = || {
                format!(
                    "{hold:?} at {} under {:?}, {} ms left",
                    seen.after, seen.fields, seen.left
                )
            };
            assert!(of(&hold.field()).is_some(), "gone: {}", what());
            assert!(
                seen.left + SLACK_MS >= hold.end() - seen.after,
                "not covered: {}",
                what()
            );
            let is_fit = match (&hold.client, hold.mode) {
                (_, Mode::Write) => mode == Some("write"),
                // Until a renewal tells.
                (Client::Ours { is_downgraded, .. }, Mode::Read) => {
                    mode == Some("read") || *is_downgraded && seen.fields.len() == 2
                }
                (Client::Theirs { owner, .. }, Mode::Read) => {
                    mode == Some("read") || of(&format!("{owner}:write")).is_some()
                }
            };
            assert!(is_fit, "in another mode: {}", what());
        }
        let owner = |hold: &Hold| hold.field().trim_end_matches(":write").to_owned();
        for writer in self.holds.iter().filter(|hold| hold.mode == Mode::Write) {
            let others = self.holds.iter().filter(|hold| owner(hold) != owner(writer));
            assert_eq!(others.count(), 0, "beside a writer: {:?}", self.holds);
        }
        let ours = self.holds.iter().filter(|hold| hold.is_ours()).count();
        self.counts.together += usize::from(ours > 0 && ours < self.holds.len());
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("short")
}

#[tokio::test]
async fn nobody_writes_beside_another_and_nobody_is_left_uncovered() {
    let mut counts = Counts::default();
    for seed in 0..SEEDS {
        let server = Server::start_with(&["--appendonly", "no"]).await;
        let client = redis::Client::open(server.url()).expect("a URL");
        let unbounded = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client
            .get_multiplexed_async_connection_with_config(&unbounded)
            .await;
        let mut walk = Walk {
            commands: connection.expect("a connection"),
            random: StdRng::seed_from_u64(seed),
            holds: Vec::new(),
            late: Vec::new(),
            passed: 0,
            made: 0,
            most: MOST,
            counts,
        };
        println!("seed {seed}");
        for _ in 0..STEPS {
            if let Some(seen) = walk.step().await {
                walk.check(&seen);
            }
        }
        counts = walk.counts;
    }
    println!("{counts:?}");
    let Counts {
        ours_granted,
        theirs_granted,
        refused,
        late,
        together,
        downgraded,
        lapsed,
    } = counts;
    let least = [
        ours_granted,
        theirs_granted,
        refused,
        late,
        together,
        downgraded,
        lapsed,
    ];
    assert!(least.iter().all(|count| *count >= 50), "{counts:?}");
}
