//! Introduction to one master: a client reads the master's set and since when its memory counts, and has the
//! master record both if necessary.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::connection::Memory;
use super::keeper::Keeper;
use super::redis::questions::judge;
use super::trust::membership::Membership;
use super::{Answer, By, Connection, Inbox, Wire};
use crate::error::{NodeError, Unfit};
use crate::protocol::calls;
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::reply::parse_introduced;
use crate::time::clock::Moment;
use crate::time::rounded::Rounded;
use crate::time::until::until;

impl Keeper {
    /// Introduces the client over a new connection, before its first call there. The connection was begun at `begun`, by two
    /// clocks.
    /// If the server may have missed grants, a memory that reaches back to these is recorded to count from now on, for
    /// this client and for later ones.
    ///
    /// Nothing is stored while any master reports another set. So before a record is stored, every other
    /// master has reported its own, or the first attempt to connect to that master has failed.
    pub(super) async fn introduce(
        &self,
        connection: &Connection,
        begun: (Moment, Instant),
        missed_until: Option<Moment>,
    ) -> Result<Memory, NodeError> {
        let (membership, node, peer) = (&self.membership, self.slot.node, &connection.peer);
        let run = peer.identity.run();
        membership.note_set(node, peer.record.as_ref().map(|record| record.set));
        membership.check()?;
        // If the memory is no older than the time since the last missed grant, another client has had it count from after
        // that. The time is until the question for the age, because the question travels for as long as that for the grant.
        let setting_up = peer.asked.saturating_duration_since(begun.1);
        let missed = |age| missed_until.is_some_and(|until| begun.0.since(until) + setting_up < age);
        let record = peer.record.as_ref();
        let counted = record.and_then(|record| Some((record, record.age(run.as_deref(), peer.clock_us)?)));
        if let Some((record, age)) = counted
            && !missed(age)
        {
            return Ok(Memory {
                age,
                clock_us: peer.clock_us,
                record: Arc::clone(&record.text),
            });
        }
        // If no memory counted at the look, a memory that counts by now was recorded after it.
        let anew = counted.is_some();
        let within = self.connect_timeout;
        let end = Instant::now() + within;
        await_others(membership, end).await;
        membership.check()?;
        let request = calls::introduce(membership.listed, run.as_deref(), anew);
        // The wait for the other masters may have used up the time.
        let end = end.max(Instant::now() + self.node_timeout);
        let answer = timeout_at(end, ask(&*connection.wire, &request)).await;
        let late = |_| NodeError::Unavailable(format!("no answer within {}", Rounded(within)));
        let answer = answer.map_err(late)?.map_err(judge)?;
        let Some((record, clock_us)) = parse_introduced(&answer) else {
            let error = format!("unexpected answer to introduce: {answer:?}");
            return Err(NodeError::Unavailable(error));
        };
        membership.note_set(node, Some(record.set));
        membership.check()?;
        Ok(Memory {
            // A server that hides its run may be a new run each time.
            age: record.age(run.as_deref(), clock_us).unwrap_or_default(),
            clock_us,
            record: Arc::clone(&record.text),
        })
    }

    /// Resolves with the reason why this client may use no master, once a master reports another set.
    pub(super) async fn refused(&self) -> Unfit {
        until(&self.membership.news, || self.membership.check().err()).await
    }
}

/// Waits until `end`, or until every master has reported its record or cannot be connected.
async fn await_others(membership: &Membership, end: Instant) {
    let reported = until(&membership.news, || membership.is_complete().then_some(()));
    let _ = timeout_at(end, reported).await;
}

/// Sends one call, and sends it again with its text if the master does not have the script.
async fn ask(wire: &dyn Wire, request: &Request) -> Answer {
    let ask = |by| {
        let (inbox, reply) = Inbox::single();
        wire.call(request, by, reply);
        inbox.answer()
    };
    let answer = ask(By::Sha).await;
    if Fault::is_no_script(&answer) {
        return ask(By::Source).await;
    }
    answer
}
