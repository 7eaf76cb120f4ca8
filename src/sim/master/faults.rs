//! Faults of a master in memory.

use std::sync::Arc;
use std::time::Duration;

use super::clock::NEVER;
use super::{Keep, Master, MasterState};
use crate::error::Unfit;
use crate::sim::store::Store;

impl Master {
    /// Stops the process. Connections stay open, and no call is executed or answered until
    /// [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.change(|state| state.conditions.frozen = true);
    }

    /// Ends a [`freeze`](Self::freeze). The calls that arrived meanwhile are executed.
    pub fn thaw(&self) {
        self.change(|state| state.conditions.frozen = false);
    }

    /// Makes every request take `to_server` and every reply `to_client`, in order.
    pub fn set_delay(&self, to_server: Duration, to_client: Duration) {
        self.change(|state| {
            state.conditions.request_delay = to_server.min(NEVER);
            state.conditions.reply_delay = to_client.min(NEVER);
        });
    }

    /// Makes messages on channels take this time, in place of the time of replies. `None` undoes it.
    pub fn set_notice_delay(&self, delay: Option<Duration>) {
        self.change(|state| state.conditions.notice_delay = delay.map(|delay| delay.min(NEVER)));
    }

    /// Loses every message on a channel from now on, or delivers them again.
    pub fn lose_notices(&self, lose: bool) {
        self.change(|state| state.notices_lost = lose);
    }

    /// Holds requests back on their way, or lets them go on.
    pub fn hold_requests(&self, hold: bool) {
        self.change(|state| state.conditions.requests_held = hold);
    }

    /// Holds replies back on their way, or lets them go on.
    pub fn hold_replies(&self, hold: bool) {
        self.change(|state| state.conditions.replies_held = hold);
    }

    /// Executes the next `requests` requests without ever answering them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::LockError;
    ///
    /// // All masters grant it, and no answer arrives.
    /// cluster.iter().for_each(|master| master.lose_replies(1));
    /// let refused = masters.red_lock("a").try_lock().await;
    /// assert!(matches!(refused, Err(LockError::Unreachable { .. })));
    /// // The rollback takes the grants back.
    /// tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// assert!(cluster.iter().all(|master| master.locks().is_empty()));
    /// # Ok(()) }
    /// ```
    pub fn lose_replies(&self, requests: usize) {
        self.change(|state| state.lost_replies = requests);
    }

    /// Answers every request with this error (such as `BUSY …`), without executing it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Vote;
    ///
    /// let error = "READONLY You can't write against a read only replica.";
    /// cluster.master(0).answer_with(Some(error));
    /// let guard = masters.red_lock("a").lock().await?;
    /// let failed = guard.votes().iter().filter(|answer| matches!(&answer.vote, Vote::Failed { .. })).count();
    /// assert!(failed <= 1, "a majority has granted it: {}", guard.votes());
    /// cluster.master(0).answer_with(None);
    /// # Ok(()) }
    /// ```
    pub fn answer_with(&self, error: Option<&str>) {
        self.change(|state| state.error = error.map(str::to_owned));
    }

    /// Refuses commands that need memory, as a master at its `maxmemory` does.
    pub fn out_of_memory(&self, oom: bool) {
        self.change(|state| state.store.oom = oom);
    }

    /// Forgets the scripts, as `SCRIPT FLUSH` does.
    pub fn flush_scripts(&self) {
        self.change(|state| state.scripts.clear());
    }

    /// Forgets the scripts of one operation, such as `"acquire"`.
    pub fn forget_script(&self, name: &str) {
        self.change(|state| state.scripts.retain(|_, known| *known != name));
    }

    /// Kills the process: every connection ends, and no new one can be made until [`restart`](Self::restart).
    pub fn crash(&self) {
        self.change(|state| {
            state.up = false;
            state.break_connections();
        });
    }

    /// Takes a snapshot of its keys, which a [`restart`](Self::restart) may load.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::sim::Keep;
    ///
    /// cluster.master(0).save();
    /// let guard = masters.red_lock("a").lock().await?;
    /// tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// cluster.master(0).restart(Keep::Saved);
    /// assert!(cluster.master(0).locks().is_empty(), "the snapshot is older than the lock");
    /// # Ok(()) }
    /// ```
    pub fn save(&self) {
        self.change(|state| state.saved = state.store.clone());
    }

    /// Starts the process again, under a new identity.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::sim::Keep;
    ///
    /// cluster.master(0).crash();
    /// cluster.master(0).restart(Keep::Nothing);
    /// # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// // The master is there, and has no vote until all leases that it may have forgotten have ended.
    /// assert_eq!(masters.status().voting(), 2);
    /// # Ok(()) }
    /// ```
    pub fn restart(&self, keep: Keep) {
        self.change(|state| {
            match keep {
                Keep::Data => {}
                Keep::Saved => {
                    let (oom, publish_denied) = (state.store.oom, state.store.publish_denied);
                    state.store = state.saved.clone();
                    (state.store.oom, state.store.publish_denied) = (oom, publish_denied);
                }
                Keep::Nothing => state.store = Store::default(),
            }
            state.scripts.clear();
            state.abandoned.clear();
            state.runs += 1;
            state.is_found = true;
            state.break_connections();
            state.up = true;
        });
    }

    /// Swaps the server behind this address with the server behind another one, as when a spare replaces a
    /// master. Every connection to either breaks. Faults move with the server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::sim::Cluster;
    ///
    /// let spare = Cluster::new(1);
    /// cluster.master(0).change_places(spare.master(0));
    /// # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// // The server knows of no hold, and has no vote until all leases before it have ended.
    /// assert_eq!(masters.status().voting(), 2);
    /// # Ok(()) }
    /// ```
    pub fn change_places(&self, other: &Self) {
        if Arc::ptr_eq(&self.inner, &other.inner) {
            return;
        }
        let mut away = MasterState::default();
        for master in [self, other, self] {
            std::mem::swap(&mut *master.state(), &mut away);
        }
        // A connection of one master must not be taken for a connection of the other.
        let next_client = self.state().next_client.max(other.state().next_client);
        let resets = self.state().resets.max(other.state().resets);
        for master in [self, other] {
            master.change(|state| {
                (state.next_client, state.resets) = (next_client, resets);
                state.break_connections();
                state.is_found = true;
            });
        }
    }

    /// Breaks every connection. Messages on their way are lost, or the requests among them are
    /// [stored](Self::keep_abandoned).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// let guard = masters.red_lock("a").lock().await?;
    /// cluster.iter().for_each(|master| master.reset_connections());
    /// // The client connects again, and the hold goes on.
    /// tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    /// assert!(guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn reset_connections(&self) {
        self.change(MasterState::break_connections);
    }

    /// Executes the next request and breaks every connection before it is answered.
    pub fn reset_at_next_request(&self) {
        self.change(|state| state.reset_at_next = true);
    }

    /// Sets its clock forward. Keys expire by this clock, and the master measures by it how long its memory
    /// counts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let guard = masters.red_lock("a").lease(Duration::from_secs(10)).lock().await?;
    /// cluster.master(0).set_clock_forward(Duration::from_secs(60));
    /// // The key has expired there; two others have it.
    /// assert!(cluster.master(0).locks().is_empty());
    /// assert!(guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn set_clock_forward(&self, by: Duration) {
        self.change(|state| state.clock_offset.set_forward(by));
    }

    /// Sets its clock back.
    pub fn set_clock_back(&self, by: Duration) {
        self.change(|state| state.clock_offset.set_back(by));
    }

    /// Makes its clock gain `ppm` microseconds in each second from now on. A negative number makes it lose them.
    pub fn set_clock_rate(&self, ppm: i32) {
        self.change(|state| state.clock_offset.set_rate(ppm));
    }

    /// Removes a key, as an evicting server does. Returns whether the key existed.
    pub fn evict(&self, key: &str) -> bool {
        self.command(&["DEL", key]).is_ok_and(|gone| gone == ["1"])
    }

    /// Deletes every key while the master goes on running, as `FLUSHALL` does.
    pub fn flush_all(&self) {
        self.change(|state| state.is_found = true);
        let _ = self.command(&["FLUSHALL"]);
    }

    /// Stores the requests on a connection when it breaks or the client gives it up, for
    /// [`deliver_abandoned`](Self::deliver_abandoned). So a socket may still have an effect after its client
    /// stopped reading.
    pub fn keep_abandoned(&self, keep: bool) {
        self.change(|state| state.keep_abandoned = keep);
    }

    /// Executes the [stored](Self::keep_abandoned) requests. Returns their number.
    pub fn deliver_abandoned(&self) -> usize {
        let abandoned = std::mem::take(&mut self.state().abandoned);
        let mut executed = 0;
        for (client, requests) in abandoned {
            for request in &requests {
                self.execute(client, request);
            }
            executed += requests.len();
        }
        executed
    }

    /// Refuses new connections, as a server that cannot be a master does, for this reason; `None` undoes it.
    /// Existing connections stay: [`reset_connections`](Self::reset_connections) ends them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{NodeError, Unfit};
    ///
    /// // A failover has made it a replica.
    /// cluster.master(2).set_unfit(Some(Unfit::Replica));
    /// cluster.master(2).reset_connections();
    /// # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// let status = masters.status();
    /// assert_eq!(status.nodes[2].connection, Err(NodeError::Unfit(Unfit::Replica)));
    /// # Ok(()) }
    /// ```
    pub fn set_unfit(&self, reason: Option<Unfit>) {
        self.change(|state| state.unfit = reason);
    }

    /// Denies `CLIENT KILL`, as an ACL may.
    pub fn deny_client_kill(&self, deny: bool) {
        self.change(|state| state.client_kill_denied = deny);
    }

    /// Denies `SUBSCRIBE`, as an ACL may. Connections that listen already go on listening.
    pub fn deny_subscribe(&self, deny: bool) {
        self.change(|state| state.subscribe_denied = deny);
    }

    /// Denies `PUBLISH` inside scripts, as an ACL may. So no waiter is called.
    pub fn deny_publish(&self, deny: bool) {
        self.change(|state| state.store.publish_denied = deny);
    }
}
