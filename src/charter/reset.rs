//! Lowers the longest lease again: the charter is taken away from all masters, once nothing rests on it.
//!
//! What must not happen: somebody has a lease of more than what needs no agreement, or comes to have one, which a master
//! forgets, and a client that has never heard of such leases trusts that master 31 s later. So it is looked at who may
//! have such a lease (what is locked for long, on masters that cannot have forgotten it), and who may come to have one
//! (clients remember what was agreed upon for as long as they live). Nobody can be kept out during the look, so it is
//! taken away first and looked at again. The cases of a client that comes meanwhile, on one master:
//!
//! - It has told the master its charter before that was taken away. Its connection stands at the second look, and is seen;
//!   or it has ended, and all that came over it was executed by then: what the client holds is seen.
//! - It tells it afterwards. Then it stands there at the second look.
//! - It is not connected at either look, and holds nothing: it comes later, tells every master its charter before it
//!   asks it for anything, and is named by that (`NodeCharter::raised_by`).
//!
//! A request that is stuck on its way belongs to a connection, which is seen. A hold whose client is cut off from every
//! master is seen by its key: no master was started since it may have been granted, and a quorum has it. What lives for
//! 30 s at most is what every client reckons with, however long it was when it was granted.
//!
//! Putting it back raises, as clients do, and so harms nobody who came in between. Where this process is killed between
//! taking away and the end of the second look, it is as if masters had forgotten: whoever knows of it puts it back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redis::Value;
use tokio::time::sleep;

use super::look::{Objections, Rules, Told, look_at_all, objections};
use super::master::{Master, Stored, unexpected};
use super::{Charter, NodeCharter, commands, leases};
use crate::builder::MastersBuilder;
use crate::error::{NodeError, Objection, ResetError};

/// How often a master is asked to store again what it had, and how long in between.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

impl MastersBuilder {
    /// Takes away what clients have agreed upon of leases that are longer than 30 s, on all masters, so that a master that is
    /// started again has its vote back after 31 s once more. Only an operator does that, once every service that
    /// locks on these masters is stopped: a client remembers what was agreed upon for as long as it lives.
    ///
    /// It is refused unless every master of the list answers; none has a connection of this crate's clients, as `CLIENT LIST`
    /// shows them; none has a lock that lives for longer than what needs no agreement; and each was started longer ago
    /// than the longest lease that was agreed upon, so that it cannot have forgotten one (with
    /// [`Quarantine::Off`](crate::Quarantine::Off) that is not asked for: by this you vouch that the masters keep every
    /// acknowledged write). When it was taken away the masters are looked at again. Where something came in
    /// between, it is put back as it stood, and the reset fails.
    ///
    /// What stood there before is returned; nothing, where nothing did. A process that was connected to no master, held nothing, and comes
    /// back later with what it remembers stores it again; [`NodeCharter::raised_by`] names it.
    ///
    /// The user needs `+scan +hscan +client|list` and all keys beside what clients need.
    ///
    /// ```no_run
    /// # use multilock::{Masters, ResetError};
    /// # async fn reset() {
    /// let masters = Masters::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
    /// match masters.reset_charter().await {
    ///     Ok(before) => println!("{before:?} stood there"),
    ///     Err(ResetError::Refused { objections, .. }) => {
    ///         for (node, objection) in objections {
    ///             println!("{node}: {objection}");
    ///         }
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResetError::Connect`] before any master is touched; [`ResetError::Refused`] when nothing was changed;
    /// [`ResetError::PutBack`] when something came in between. A look through the keys of a master takes a minute at most.
    ///
    /// # Cancel safety
    ///
    /// Dropped during the first look, nothing is changed. From then on it goes on in the background to its end.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn reset_charter(self) -> Result<Charter, ResetError> {
        let rules = Rules::of(&self.config);
        let masters = self.open().await?;
        let told = look_at_all(&masters, rules).await;
        let before = charter(&masters, &told, rules);
        let against = objections(&masters, &told, rules, before.longest());
        let stored: Vec<Stored> = told.into_iter().flatten().map(|told| told.stored).collect();
        if stored.len() == masters.len() && stored.iter().all(|stored| stored.text.is_empty()) {
            // Whoever is connected, and whatever is locked.
            return Ok(before);
        }
        if !against.is_empty() {
            let labels = labels(&masters, &against).await;
            return Err(ResetError::Refused {
                objections: against,
                labels,
            });
        }
        let longest = before.longest();
        let taking_away = tokio::spawn(take_away(masters, stored, rules, longest));
        taking_away.await.unwrap_or(Err(ResetError::Interrupted))?;
        Ok(before)
    }
}

fn charter(masters: &[Master], told: &[Result<Told, NodeError>], rules: Rules) -> Charter {
    let node = |(master, told): (&Master, &Result<Told, NodeError>)| {
        let told = told.as_ref().map(|told| told.stored.charter.clone());
        (Arc::clone(&master.label), told.map_err(NodeError::clone))
    };
    Charter {
        nodes: masters.iter().zip(told).map(node).collect(),
        free: rules.free,
    }
}

/// Takes it away, looks again, and puts it back where it has to be.
async fn take_away(
    masters: Vec<Master>,
    stored: Vec<Stored>,
    rules: Rules,
    longest: Duration,
) -> Result<(), ResetError> {
    let against = match taken_away(&masters, &stored).await {
        objections if objections.is_empty() => came_meanwhile(&masters, rules, longest).await,
        objections => objections,
    };
    if against.is_empty() {
        return Ok(());
    }
    let labels = labels(&masters, &against).await;
    let putting_back = masters.iter().zip(&stored).map(async |(master, stored)| {
        let failed = put_back(master, &stored.charter, masters.len()).await.err();
        failed.map(|error| (Arc::clone(&master.label), error))
    });
    let missing = join_all(putting_back).await.into_iter().flatten().collect();
    Err(ResetError::PutBack {
        objections: against,
        labels,
        missing,
    })
}

/// Takes it away where it stands as it was read. What kept it from that, if anything.
async fn taken_away(masters: &[Master], stored: &[Stored]) -> Objections {
    let taking = masters.iter().zip(stored).map(async |(master, stored)| {
        let objection = match master.answer(&commands::take_away(&stored.text)).await {
            Ok(Value::Int(1)) => return None,
            Ok(Value::Int(0)) => raised(master).await,
            Ok(other) => unexpected("EVAL", &other).into(),
            Err(error) => error.into(),
        };
        Some((Arc::clone(&master.label), objection))
    });
    join_all(taking).await.into_iter().flatten().collect()
}

async fn raised(master: &Master) -> Objection {
    master.stored().await.map_or_else(Objection::from, |stored| {
        let NodeCharter {
            longest, raised_by, ..
        } = stored.charter;
        Objection::Raised {
            longest,
            by: raised_by,
        }
    })
}

/// What is to be seen on the masters now that was not before.
async fn came_meanwhile(masters: &[Master], rules: Rules, longest: Duration) -> Objections {
    let told = look_at_all(masters, rules).await;
    let mut against = objections(masters, &told, rules, longest);
    for (master, told) in masters.iter().zip(&told) {
        let Some(stored) = told.as_ref().ok().map(|told| &told.stored) else {
            continue;
        };
        if !stored.text.is_empty() {
            let objection = Objection::Raised {
                longest: stored.charter.longest,
                by: stored.charter.raised_by.clone(),
            };
            against.push((Arc::clone(&master.label), objection));
        }
    }
    against
}

/// Stores again what stood there, over a new connection where the old one has ended.
async fn put_back(master: &Master, stood: &NodeCharter, listed: usize) -> Result<(), NodeError> {
    if stood.longest.is_zero() {
        return Ok(());
    }
    let command = commands::put_back(stood, listed);
    let mut answer = master.answer(&command).await;
    for _ in 1..ATTEMPTS {
        if answer.is_ok() {
            break;
        }
        sleep(PAUSE).await;
        answer = master.open_again().await.answer(&command).await;
    }
    answer.map(drop)
}

/// What clients call themselves, on the masters where some are connected.
async fn labels(masters: &[Master], against: &Objections) -> Vec<String> {
    let sees = |master: &&Master| {
        let is_client = |objection: &Objection| matches!(objection, Objection::Connected { .. });
        let mut here = against.iter().filter(|(node, _)| *node == master.label);
        here.any(|(_, objection)| is_client(objection))
    };
    let told = masters.iter().filter(sees).map(leases::labels);
    let told = join_all(told).await.into_iter().flatten();
    let mut labels: Vec<String> = told.flatten().collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}
