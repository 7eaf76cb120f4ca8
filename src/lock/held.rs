//! Every lock that is held or waited for: [`Masters::held`].

use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use crate::admin::inspect::{Inspection, NodeState};
use crate::admin::scan;
use crate::error::{InvalidInput, LockError};
use crate::masters::Masters;
use crate::values::names::Names;
use crate::values::policy::Policy;

/// Number of names in one look. A script for as many takes less than two milliseconds.
const AT_ONCE: usize = 64;

impl Masters {
    /// Looks for the locks that are held or waited for now, of all processes, also of Redisson's. For operators.
    ///
    /// `pattern` is one of Redis: `*` for all locks, `invoice:*` for some. With a [namespace](crate::MastersBuilder::namespace)
    /// only its names are looked at. The locks come in the order of their names, each as by
    /// [`inspect`](crate::MultiLock::inspect). A seat of a name with permits comes as a lock of its own, and its
    /// waiters as those of `name:seat`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use futures::TryStreamExt;
    ///
    /// let _guard = masters.red_lock("invoice:42").lock().await?;
    /// let held: Vec<_> = masters.held("invoice:*").try_collect().await?;
    /// assert_eq!(held[0].name, "invoice:42");
    /// # Ok(()) }
    /// ```
    ///
    /// The masters are asked by `SCAN`, about 400 keys at a time, so no other client waits for longer than a
    /// millisecond or two. All keys of a database are looked at, and not only those of locks. A lock that is taken or
    /// released meanwhile may be missing, and so are keys that an ACL denies to this client.
    ///
    /// # Errors
    ///
    /// The stream ends with its first error.
    ///
    /// - [`LockError::Invalid`] for an empty pattern, before a master is asked.
    /// - [`LockError::Unreachable`] when no majority of the masters has reported all that it has within its
    ///   deadlines.
    /// - [`LockError::Misconfigured`] when too many masters deny `SCAN` for a majority.
    /// - [`LockError::Closed`].
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// Nothing is written, so the stream can be dropped at any time.
    pub fn held(&self, pattern: &str) -> impl Stream<Item = Result<Inspection, LockError>> + Send + use<> {
        let (masters, pattern) = (self.clone(), pattern.to_owned());
        let names = {
            let masters = masters.clone();
            async move { masters.names_of_locks(&pattern).await }
        };
        stream::once(names)
            .map_ok(|names| stream::iter(names.into_iter().map(Ok::<_, LockError>)))
            .try_flatten()
            .try_chunks(AT_ONCE)
            .map_err(|stopped| stopped.1)
            .and_then(move |names| {
                let lock = masters.lock(names, Policy::RedLock);
                async move { Ok(stream::iter(lock.inspect().await?.into_iter().map(Ok))) }
            })
            .try_flatten()
            .try_filter(|seen| std::future::ready(is_lock(seen)))
            .boxed()
    }

    /// Names that match the pattern, without the namespace.
    async fn names_of_locks(&self, pattern: &str) -> Result<Vec<String>, LockError> {
        if pattern.is_empty() {
            return Err(InvalidInput::new("pattern", "\"\"", "a pattern of Redis, such as *").into());
        }
        let pool = &self.client.pool;
        if pool.is_closed() {
            return Err(LockError::Closed);
        }
        let names = scan::names(pool, pattern).await?;
        // Any other key cannot be locked.
        let is_a_name = |name: &&String| Names::from(name.as_str()).check().is_ok();
        let own = |name: &String| pool.config.namespace.own(name).to_owned();
        Ok(names.iter().filter(is_a_name).map(own).collect())
    }
}

/// Whether a name is held or waited for. Any other hash is data of somebody else.
fn is_lock(seen: &Inspection) -> bool {
    let is_held = |state: &NodeState| {
        matches!(
            state,
            NodeState::Held { .. } | NodeState::Write { .. } | NodeState::Read { .. }
        )
    };
    seen.waiting > 0 || seen.nodes.iter().any(|(_, state)| is_held(state))
}
