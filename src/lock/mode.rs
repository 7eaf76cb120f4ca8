//! Modes of a guard, as types: no other holder, or no writer.

use std::fmt::Debug;

/// Mode of a [`MultiLock`](crate::MultiLock) and of its [`MultiLockGuard`](crate::MultiLockGuard):
/// [`Exclusive`], [`Shared`], [`Permit`], or [`Either`] of them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::{Exclusive, Lost, Mode, MultiLockGuard, Shared};
///
/// /// May be called by readers and by writers.
/// fn look<M: Mode>(guard: &MultiLockGuard<M>) -> Result<(), Lost> {
///     guard.ensure_valid()
/// }
///
/// /// May be called by an exclusive holder alone.
/// fn change(guard: &MultiLockGuard<Exclusive>) -> Result<(), Lost> {
///     guard.ensure_valid()
/// }
///
/// let writing = masters.red_lock("catalogue").write().lock().await?;
/// change(&writing)?;
/// let reading: MultiLockGuard<Shared> = writing.downgrade().await;
/// look(&reading)?;
/// # Ok(()) }
/// ```
pub trait Mode: sealed::Sealed + Copy + Debug + Send + Sync + Unpin + 'static {}

/// Mode without any other holder of the names.
#[derive(Clone, Copy, Debug)]
pub enum Exclusive {}

/// Mode in which others may hold the names at the same time, all of them as readers.
#[derive(Clone, Copy, Debug)]
pub enum Shared {}

/// Mode in which as many others may hold the name as there are permits
/// ([`Masters::permits`](crate::Masters::permits)).
///
/// ```
/// use multilock::{MultiLockGuard, Permit};
///
/// fn port(permit: &MultiLockGuard<Permit>) -> u32 {
///     9000 + permit.seat()
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Permit {}

/// Any of the modes: the locks of a [`LockSet`](crate::LockSet) may differ in it.
#[derive(Clone, Copy, Debug)]
pub enum Either {}

impl Mode for Exclusive {}
impl Mode for Shared {}
impl Mode for Permit {}
impl Mode for Either {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::lock::mode::Exclusive {}
    impl Sealed for crate::lock::mode::Shared {}
    impl Sealed for crate::lock::mode::Permit {}
    impl Sealed for crate::lock::mode::Either {}
}
