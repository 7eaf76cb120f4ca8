//! Work that blocks, off the runtime's threads.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::{JoinError, spawn_blocking};

/// Runs work one at a time. Work that hangs cannot be ended, so it takes one thread of the runtime, and no later work takes
/// another.
#[derive(Clone, Default)]
pub(crate) struct OneAtATime(Arc<Mutex<()>>);

impl OneAtATime {
    /// Runs this work after the work before. Fails if the work panics, or if the runtime ends.
    ///
    /// # Cancel safety
    ///
    /// Work that has begun goes on.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let alone = Arc::clone(&self.0).lock_owned().await;
        let running = spawn_blocking(move || {
            let _alone = alone;
            work()
        });
        running.await
    }
}

#[cfg(all(test, unix))]
pub(crate) mod tests {
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::task::spawn_blocking;
    use tokio::time::timeout;

    /// Checks that reads of a file that hangs leave one of two threads. Each read is given up after a while. Returns the runtime, in
    /// which the first read still hangs.
    pub(crate) fn a_thread_is_left(read: impl AsyncFn(Duration)) -> Runtime {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(2)
            .build()
            .expect("a runtime");
        let is_left = runtime.block_on(async {
            for _ in 0..3 {
                read(Duration::from_millis(50)).await;
            }
            let other = timeout(Duration::from_secs(10), spawn_blocking(|| 1)).await;
            other.is_ok()
        });
        if !is_left {
            // A drop would wait for the reads.
            runtime.shutdown_background();
            panic!("no thread is left");
        }
        runtime
    }
}
