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
//! Putting it back raises, as clients do, and so harms nobody who came in between. What takes it away does nothing once it was given
//! up, so it cannot come behind that, wherever it was stuck. Where this process is killed between
//! taking away and the end of the second look, it is as if masters had forgotten: whoever knows of it puts it back.

use std::sync::Arc;

use super::labels::labels;
use super::look::{Rules, Told, look_at_all, objections};
use super::master::{Master, Stored};
use super::take_away::take_away;
use crate::builder::MastersBuilder;
use crate::error::{NodeError, ResetError};
use crate::stored_charter::Charter;

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
    /// What stood there before is returned; where nothing did, nobody has to be gone. A process that was connected to no
    /// master, held nothing, and comes back later with what it remembers stores it again;
    /// [`NodeCharter::raised_by`](crate::NodeCharter::raised_by) names it.
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
