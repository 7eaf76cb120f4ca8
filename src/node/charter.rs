//! What clients agree upon, told to one master: how long leases may be, and which masters belong together.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout_at};

use super::keeper::Keeper;
use super::{Answer, By, Inbox, Link};
use crate::error::{NodeError, Unfit};
use crate::node::trust::membership::Belonging;
use crate::protocol::calls;
use crate::protocol::command::Request;
use crate::protocol::fault::{Class, Fault};
use crate::protocol::reply::parse_agreed;
use crate::time::backoff::{LONGEST_DELAY, delays};
use crate::time::rounded::Rounded;

impl Keeper {
    /// Tells the master what clients have agreed upon, before the first question there, and looks whether
    /// it belongs to the set. A master that does not answer within the connect timeout is not used: it may belong to
    /// another set.
    pub(super) async fn join(&self, link: &Arc<Link>) -> Result<(), NodeError> {
        let within = self.context.connect_timeout;
        let end = Instant::now() + within;
        let agreed = timeout_at(end, self.agree(link, false)).await;
        agreed.map_err(|_| NodeError::Unavailable(format!("no answer within {}", Rounded(within))))?;
        loop {
            let mut news = pin!(self.context.membership.news());
            news.as_mut().enable();
            let (masters, told) = match self.context.membership.of(self.slot.node()) {
                Belonging::Here => return Ok(()),
                Belonging::Elsewhere(masters) => {
                    let listed = self.context.membership.listed();
                    return Err(Unfit::OtherSet { masters, listed }.into());
                }
                Belonging::Odd(masters) => {
                    self.slot.events().taken_into_set();
                    self.context.reckoning.out_of_sight(self.slot.node());
                    let _ = timeout_at(end, self.agree(link, true)).await;
                    (
                        masters,
                        self.context.membership.of(self.slot.node()) == Belonging::Here,
                    )
                }
                Belonging::Unclear(masters) => (masters, timeout_at(end, news).await.is_ok()),
            };
            if !told {
                let reason = format!("it tells of a set of {masters} masters, and others have not told yet");
                return Err(NodeError::Unavailable(reason));
            }
        }
    }

    /// Tells the master what clients have agreed upon, and takes in what it has stored; with `moved` it
    /// belongs to this set from now on.
    async fn agree(&self, link: &Arc<Link>, moved: bool) {
        let Some(agreed) = self.context.reckoning.missing(self.slot.node()) else {
            return;
        };
        let (masters, label) = (self.context.membership.listed(), &self.context.label);
        let request = calls::charter(agreed, masters, moved, label);
        match ask(link, &request).await {
            Ok(answer) => {
                if let Some((stored, masters)) = parse_agreed(&answer) {
                    self.context.reckoning.stored(self.slot.node(), stored);
                    self.context.membership.told(self.slot.node(), masters);
                }
            }
            Err(fault) => {
                self.slot.events().not_agreed(&fault.vote());
            }
        }
    }

    /// Tells the master whatever clients agree upon from now on. Never resolves.
    pub(super) async fn keep_agreed(&self, link: &Arc<Link>) {
        let mut delays = delays(&self.context.chance);
        loop {
            let mut news = pin!(self.context.reckoning.news());
            news.as_mut().enable();
            if self.context.reckoning.missing(self.slot.node()).is_none() {
                delays = self::delays(&self.context.chance);
                news.await;
            } else {
                self.agree(link, false).await;
                if self.context.reckoning.missing(self.slot.node()).is_some() {
                    sleep(delays.next().unwrap_or(LONGEST_DELAY)).await;
                }
            }
        }
    }
}

/// One call, made again with its text where the master has forgotten the script.
async fn ask(link: &Link, request: &Request) -> Answer {
    let ask = |by| {
        let (inbox, reply) = Inbox::single();
        link.call(request, by, reply);
        inbox.answer()
    };
    let answer = ask(By::Sha).await;
    if answer.as_ref().err().and_then(Fault::class) == Some(Class::NoScript) {
        return ask(By::Source).await;
    }
    answer
}
