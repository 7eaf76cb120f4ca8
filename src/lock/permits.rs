//! Permits: locks that a limited number of holders have at once.

use std::marker::PhantomData;

use crate::hold::last_seats::seat_of;
use crate::lock::MultiLock;
use crate::lock::guard::MultiLockGuard;
use crate::lock::mode::{Either, Permit};
use crate::lock::options::LockOptions;
use crate::masters::Masters;
use crate::protocol::kind::HoldKind;
use crate::values::policy::Policy;

impl Masters {
    /// Returns a lock that at most `permits` holders have at once, from 1 to 64: one permit of the name. A majority of the
    /// masters must grant it, unless [`policy`](MultiLock::policy) is set.
    ///
    /// - Each permit is one of the seats 1 to `permits`, and nobody else has that seat:
    ///   [`seat`](MultiLockGuard::seat) returns its number. A seat is a name of its own, `name:seat:1` for the first, with a
    ///   lock as of any other name: it is renewed, lost and fenced alike. Waiters are in the queue of `name:seat`. Lock no
    ///   such name otherwise; a lock of `name` itself is another one.
    /// - Waiters are served in order of arrival, over all processes.
    /// - All clients have to agree on the number. While somebody holds a permit or waits for one, a client with another
    ///   number gets [`LockError::Misconfigured`](crate::LockError::Misconfigured), which shows both numbers. So
    ///   end the old processes before you change the number, or take another name.
    /// - A set has one permit of a name at most.
    /// - [`inspect`](MultiLock::inspect) returns each seat, and [`force_release`](MultiLock::force_release) takes all of them
    ///   away. To take one away, force the lock of its name.
    /// - A permit has no [`owner`](MultiLock::owner) and is not handed on inside a process; its
    ///   [`wanted`](MultiLockGuard::wanted) and [`waiting`](MultiLockGuard::waiting) do not show waiters.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::LockError;
    ///
    /// let gpu = masters.permits("gpu", 2);
    /// let one = gpu.lock().await?;
    /// let other = gpu.lock().await?;
    /// assert_ne!(one.seat(), other.seat());
    /// assert!(matches!(gpu.try_lock().await, Err(LockError::Contended { .. })));
    /// one.unlock().await?;
    /// gpu.run(async |permit| println!("on GPU {}", permit.seat())).await?;
    /// # Ok(()) }
    /// ```
    pub fn permits(&self, name: impl Into<String>, permits: u32) -> MultiLock<Permit> {
        let mut options = LockOptions::new(self, name.into().into(), Policy::RedLock);
        options.kind = HoldKind::Permit;
        options.rare_mut().permits = permits;
        MultiLock {
            options,
            mode: PhantomData,
        }
    }
}

impl MultiLock<Permit> {
    /// Sets the policy. [`Policy::RedLock`] by default.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Policy;
    ///
    /// let permit = masters.permits("licence", 5).policy(Policy::MultiLock).lock().await?;
    /// assert_eq!(permit.votes().granted(), 3);
    /// # Ok(()) }
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }
}

impl MultiLockGuard<Permit> {
    /// Number of the seat, from 1: a port, a device or a shard that nobody else has meanwhile.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let permit = masters.permits("port", 16).lock().await?;
    /// let port = 9000 + permit.seat();
    /// assert!((9001..=9016).contains(&port));
    /// # Ok(()) }
    /// ```
    pub fn seat(&self) -> u32 {
        seat_of(&self.hold().grant).map_or(0, |(_, seat)| u32::from(seat))
    }
}

impl MultiLockGuard<Either> {
    /// Returns the guard with the mode [`Permit`], if it is a permit.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let set = masters.permits("gpu", 4).and(masters.red_lock("model:7")).lock().await?;
    /// let mut guards = set.into_guards().into_iter();
    /// let permit = guards.next().expect("the first of two").permit().expect("a permit");
    /// assert!((1..=4).contains(&permit.seat()));
    /// # Ok(()) }
    /// ```
    pub fn permit(self) -> Result<MultiLockGuard<Permit>, Self> {
        if seat_of(&self.hold().grant).is_some() {
            Ok(self.in_mode())
        } else {
            Err(self)
        }
    }
}

impl From<MultiLockGuard<Permit>> for MultiLockGuard<Either> {
    fn from(guard: MultiLockGuard<Permit>) -> Self {
        guard.in_mode()
    }
}
