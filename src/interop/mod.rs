//! Cooperation with clients of other libraries, such as Redisson: this crate listens for their releases, and
//! lets their waiters have a turn. Mutual exclusion with them does not depend on it.

pub(crate) mod foreign_releases;
pub(crate) mod subscription;
pub(crate) mod yielding;
