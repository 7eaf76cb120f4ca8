//! Watching a leader without being a candidate.
//!
//! A task listens to the channel of the name on every master and looks at the masters after each message. Messages may
//! be lost, so it also looks now and then, and when the lease that it has seen ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::admin::inspect::{holder_of, look, only_holder};
use crate::error::LockError;
use crate::interop::subscription::Subscription;
use crate::lock::options::LockOptions;
use crate::masters::Masters;
use crate::node::ChannelForm;
use crate::protocol::keys;
use crate::protocol::kind::HoldKind;
use crate::protocol::reply::{FieldEntry, Report};
use crate::round::Trust;
use crate::round::pool::Pool;
use crate::values::holder::Holder;
use crate::values::names::Names;
use crate::values::policy::Policy;
use crate::values::token::FencingToken;

/// Shortest time between the begins of two looks: each master sends a message of its own about one event, and a name may
/// change hands often.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Time after the end of a lease at which it has surely ended.
const MARGIN: Duration = Duration::from_millis(1);

/// Rest of a lease without an end, as keys of other libraries may have.
const ENDLESS: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Leader of a name, as [`watch_leader`](Masters::watch_leader) shows it: a hint.
///
/// ```no_run
/// # async fn show(masters: multilock::Masters) -> Result<(), multilock::LockError> {
/// let mut leader = masters.watch_leader("scheduler")?;
/// while leader.changed().await.is_ok() {
///     match &*leader.borrow_and_update() {
///         Some(leader) => println!("{} leads, with token {}", leader.holder(), leader.token),
///         None => println!("nobody is known to lead"),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// Label of its client ([`client_label`](crate::MastersBuilder::client_label)), if a master knows it.
    pub label: Option<Arc<str>>,
    /// Text about its hold ([`about`](crate::MultiLock::about)), if a master knows it.
    pub about: Option<Arc<str>>,
    /// Token of its term. [`FencingToken::NONE`] if the lock is not [fenced](crate::MultiLock::fenced), or not
    /// [announced](crate::MultiLock::announced).
    pub token: FencingToken,
    /// End of its lease by the wall clock, unless it is renewed, as of the last look.
    pub until: SystemTime,
    holder: Holder,
}

impl Leader {
    /// Holder of the name, to compare with [`Leadership::holder`](crate::Leadership::holder).
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Whether the leader differs in its holder, token, label or text.
    fn differs(&self, other: &Self) -> bool {
        self.holder != other.holder
            || self.token != other.token
            || (&self.label, &self.about) != (&other.label, &other.about)
    }
}

impl Masters {
    /// Watches the leader of a name: the holder that a majority of the masters shows. For clients that
    /// are no candidates, such as a service that sends its requests to the leader.
    ///
    /// **It is a hint.** The value was true at some moment before. The leader may have lost its lock since, and
    /// another one may lead. A request to it should carry the [`token`](Leader::token), so that the receiver
    /// can refuse it if its own term is another one.
    ///
    /// - A change is shown after a message of the masters, usually within a round trip or two. A leader that
    ///   has crashed is shown until its lease ends. A message that is lost costs half a lease at most.
    /// - No leader with a smaller token follows one with a larger token.
    /// - `None` if no majority shows a holder. While too few masters answer or have a vote, the last leader is shown until
    ///   its lease ends.
    /// - The receiver wakes when the leader changes. [`until`](Leader::until) moves on without that.
    ///
    /// Leaders by [`lead`](crate::MultiLock::lead) send the messages, as do all locks that are
    /// [`announced`](crate::MultiLock::announced). Other holders of the name are found by the look at every
    /// half lease (of this client), without a token.
    ///
    /// The watch costs each master one subscription, and a question after each message and every half lease.
    /// It ends when the last receiver is dropped, when the masters are closed, and with the last clone of the
    /// masters and the last guard; it keeps neither alive.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    ///
    /// let mut leader = masters.watch_leader("scheduler")?;
    ///
    /// let other = cluster.connect(Masters::builder().client_label("scheduler@web-1")).await?;
    /// tokio::spawn(async move {
    ///     let lock = other.red_lock("scheduler").about("http://web-1:8080");
    ///     lock.lead(|_| std::future::pending::<()>()).await
    /// });
    ///
    /// let seen = leader.wait_for(Option::is_some).await?.clone().expect("a leader");
    /// assert_eq!(seen.label.as_deref(), Some("scheduler@web-1"));
    /// assert_eq!(seen.about.as_deref(), Some("http://web-1:8080"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`] for a name that no lock can have, and [`LockError::Closed`].
    pub fn watch_leader(
        &self,
        name: impl Into<String>,
    ) -> Result<watch::Receiver<Option<Leader>>, LockError> {
        let pool = &self.client.pool;
        let lock = LockOptions::new(self, name.into().into(), Policy::RedLock).request()?;
        let (shown, receiver) = watch::channel(None);
        let watching = LeaderWatch {
            pool: Arc::downgrade(pool),
            names: lock.options.names,
            majority: lock.options.needed,
            shown,
            largest: FencingToken::NONE,
            ends: None,
        };
        pool.spawn(watching.run());
        Ok(receiver)
    }
}

/// Task of one [`watch_leader`](Masters::watch_leader).
struct LeaderWatch {
    /// Not kept alive.
    pool: Weak<Pool>,
    /// The one name.
    names: Names,
    majority: usize,
    shown: watch::Sender<Option<Leader>>,
    /// Largest token that was shown.
    largest: FencingToken,
    /// End of the lease of the leader that is shown.
    ends: Option<Instant>,
}

/// Result of one look at the masters.
enum Sight {
    /// The leader, and the rest of its lease.
    Leader(Leader, Duration),
    Nobody,
    /// Too few masters have answered.
    Unknown,
}

impl LeaderWatch {
    async fn run(mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let closing = pool.closing.clone();
        let half_lease = pool.config.default_lease() / 2;
        let channels = self
            .names
            .iter()
            .map(|name| (ChannelForm::Exact, keys::leads(name).text()));
        let subscription = Subscription::begin(&pool, channels).await;
        drop(pool);
        loop {
            let (begun, before) = (Instant::now(), subscription.messages.by_now());
            let Some(pool) = self.pool.upgrade() else { return };
            // Masters in quarantine show attempts that cannot win.
            let trust = Trust::Memory(self.majority);
            let reports = look(&pool, &self.names, HoldKind::Plain, trust).await;
            drop(pool);
            self.show(sight_of(&reports, self.majority));
            let latest = begun + half_lease;
            let next = self.ends.map_or(latest, |ends| latest.min(ends + MARGIN));
            let after_a_message = async {
                subscription.messages.news_since(&before, |_| true).await;
                sleep_until(begun + BETWEEN_LOOKS).await;
            };
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                () = self.shown.closed() => return,
                () = after_a_message => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Takes in a look at the masters, and wakes the receivers if it has changed the leader.
    fn show(&mut self, sight: Sight) {
        match sight {
            // The answer was late: the masters have granted a later term since.
            Sight::Leader(leader, _) if leader.token != FencingToken::NONE && leader.token < self.largest => {
                self.show_until_its_end();
            }
            Sight::Leader(leader, left) => {
                self.largest = self.largest.max(leader.token);
                self.ends = Some(Instant::now() + left);
                self.shown.send_if_modified(|shown| {
                    let differs = shown.as_ref().is_none_or(|shown| shown.differs(&leader));
                    *shown = Some(leader);
                    differs
                });
            }
            Sight::Nobody => self.show_nobody(),
            Sight::Unknown => self.show_until_its_end(),
        }
    }

    fn show_until_its_end(&mut self) {
        if self.ends.is_none_or(|ends| ends <= Instant::now()) {
            self.show_nobody();
        }
    }

    fn show_nobody(&mut self) {
        self.ends = None;
        self.shown.send_if_modified(|shown| shown.take().is_some());
    }
}

/// Leader that a majority of the reports shows.
fn sight_of<E>(reports: &[Result<Report, E>], majority: usize) -> Sight {
    let mut seen = BTreeMap::<&str, Vec<(&FieldEntry, Duration)>>::new();
    for report in reports.iter().flatten() {
        let Some([stored]) = report.entries.get(..1) else {
            continue;
        };
        let left = stored.remaining.unwrap_or(ENDLESS);
        // Nobody leads by reading, or by names that stay locked after their holder.
        if let Some((holder, 1..)) = only_holder(stored) {
            seen.entry(&holder.field).or_default().push((holder, left));
        }
    }
    let silent = reports.iter().filter(|report| report.is_err()).count();
    let mut its = seen.into_values().max_by_key(Vec::len).unwrap_or_default();
    if its.len() < majority {
        return if its.len() + silent >= majority {
            Sight::Unknown
        } else {
            Sight::Nobody
        };
    }
    its.sort_unstable_by_key(|(_, left)| std::cmp::Reverse(*left));
    // From then on fewer than a majority have it.
    let left = its[majority - 1].1;
    let facts = || its.iter().map(|(entry, _)| &entry.facts);
    let token = facts().filter_map(|facts| facts.token).max();
    let now = SystemTime::now();
    let leader = Leader {
        label: facts().find_map(|facts| facts.label.clone()),
        about: facts().find_map(|facts| facts.about.clone()),
        token: token.unwrap_or(FencingToken::NONE),
        until: now.checked_add(left).unwrap_or(now),
        holder: holder_of(its[0].0),
    };
    Sight::Leader(leader, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::caption::HolderFacts;
    use crate::protocol::reply::StoredName;

    /// Answers of masters that store a term of this owner, with a rest of its lease in seconds; without one, of a free name.
    fn answers<const N: usize>(terms: [Option<(&str, u64)>; N]) -> Vec<Result<Report, ()>> {
        let field = |(owner, _): (&str, u64)| FieldEntry {
            field: owner.into(),
            value: "1".into(),
            facts: HolderFacts::default(),
        };
        let stored = |term: Option<(&str, u64)>| StoredName {
            kind: "hash".into(),
            remaining: term.map(|(_, left)| Duration::from_secs(left)),
            waiting: 0,
            waiting_to_read: 0,
            fence: None,
            first_waiting: None,
            last_force: None,
            fields: term.map(field).into_iter().collect(),
            digest: None,
        };
        let report = |term| Report {
            clock_us: 0,
            entries: vec![stored(term)],
        };
        terms.into_iter().map(|term| Ok(report(term))).collect()
    }

    #[test]
    fn a_leader_leads_for_as_long_as_a_majority_has_its_lease() {
        for lefts in [[1, 5, 3], [5, 3, 1], [3, 1, 5]] {
            match sight_of(&answers(lefts.map(|left| Some(("a:1", left)))), 2) {
                Sight::Leader(_, left) => assert_eq!(left.as_secs(), 3, "{lefts:?}"),
                _ => panic!("all have it"),
            }
        }
    }

    #[test]
    fn silent_masters_may_have_a_leader() {
        let its = Some(("a:1", 3));
        let beside_silent = |mut answers: Vec<_>| {
            answers.resize_with(3, || Err(()));
            sight_of(&answers, 2)
        };
        assert!(matches!(beside_silent(answers([its, None])), Sight::Unknown));
        assert!(matches!(beside_silent(answers([None])), Sight::Unknown));
        assert!(matches!(beside_silent(answers([None, None])), Sight::Nobody));
        let others = Some(("b:1", 3));
        assert!(matches!(
            beside_silent(answers([its, None, others])),
            Sight::Nobody
        ));
    }
}
