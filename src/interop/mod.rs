//! What exists only beside clients of other libraries, such as Redisson: their releases are listened for, and their waiters
//! have a turn. Exclusion beside them needs none of it.

pub(crate) mod beside;
pub(crate) mod subscription;
pub(crate) mod yielding;
