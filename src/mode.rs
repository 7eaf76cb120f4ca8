//! What a guard proves, as a type: that nobody else holds, or that nobody writes.

use std::fmt::Debug;

/// What a [`MultiLock`](crate::MultiLock) gives and a [`MultiLockGuard`](crate::MultiLockGuard) proves: [`Exclusive`],
/// [`Shared`], or [`Either`] of them.
pub trait Mode: sealed::Sealed + Copy + Debug + Send + Sync + Unpin + 'static {}

/// Nobody else holds the names.
#[derive(Clone, Copy, Debug)]
pub enum Exclusive {}

/// Others may hold the names at the same time, all of them to read.
#[derive(Clone, Copy, Debug)]
pub enum Shared {}

/// One of the two: the locks of a [`LockSet`](crate::LockSet) may be of both kinds.
#[derive(Clone, Copy, Debug)]
pub enum Either {}

impl Mode for Exclusive {}
impl Mode for Shared {}
impl Mode for Either {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Exclusive {}
    impl Sealed for super::Shared {}
    impl Sealed for super::Either {}
}
