//! The parts of the protocol that the files need.

#[path = "../../../src/protocol/node_set.rs"]
pub(crate) mod node_set;

pub(crate) mod fault {
    use std::convert::Infallible;
    use std::sync::Arc;

    use redis::Value;

    use crate::node::Answer;

    /// The faults that the pipe and the inbox give themselves, and the one that the pipe looks into.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        NotSent(Arc<str>),
        Unknown(Arc<str>),
        /// The server of these tests refuses nothing.
        Server(Infallible, Arc<str>),
    }

    impl Fault {
        pub(crate) fn check(value: Value) -> Answer {
            Ok(value)
        }
    }
}

/// Content of a release.
pub(crate) mod claim {
    use crate::protocol::field::Field;
    use crate::protocol::kind::HoldKind;
    use crate::values::names::Names;

    #[derive(Clone, Debug)]
    pub(crate) struct Claim {
        pub(crate) names: Names,
        pub(crate) field: Field,
        pub(crate) kind: HoldKind,
        pub(crate) beside_redisson: bool,
    }
}

/// Caption of a hold; the models only compare it.
pub(crate) mod caption {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Caption {
        pub(crate) is_published: bool,
    }
}

pub(crate) mod calls {
    use crate::protocol::kind::HoldKind;
    use crate::values::names::Names;
    use crate::values::token::Block;

    pub(crate) fn extended_keys(_: &Names, _: HoldKind, _: Block) -> usize {
        0
    }
}

/// The kinds, as far as a hold needs them.
pub(crate) mod kind {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub(crate) enum HoldKind {
        Plain,
        Write,
        Read,
    }

    impl HoldKind {
        pub(crate) fn is_shared(self) -> bool {
            self == Self::Read
        }

        pub(crate) fn includes(self, other: Self) -> bool {
            self == other || self == Self::Write && other == Self::Read
        }
    }
}

pub(crate) mod field {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Field;
}

pub(crate) mod reply {
    use std::num::NonZeroU64;

    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct WaitersBehind {
        pub(crate) waiting: u32,
        pub(crate) first: Option<NonZeroU64>,
    }
}

pub(crate) mod waiter {
    pub(crate) const LAST: u64 = u64::MAX;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Waiter {
        pub(crate) ticket: u64,
    }
}
