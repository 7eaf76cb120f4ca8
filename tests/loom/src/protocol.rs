//! What the files need of the protocol.

pub(crate) mod fault {
    use std::sync::Arc;

    use redis::Value;

    use crate::node::Answer;

    /// Those that the two give themselves.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        NotSent(Arc<str>),
        Unknown(Arc<str>),
    }

    impl Fault {
        pub(crate) fn check(value: Value) -> Answer {
            Ok(value)
        }
    }
}

/// What a release says.
pub(crate) mod claim {
    use crate::names::Names;
    use crate::protocol::field::Field;
    use crate::token::FencingToken;

    #[derive(Clone, Debug)]
    pub(crate) struct Claim {
        pub(crate) names: Names,
        pub(crate) field: Field,
        pub(crate) token: FencingToken,
    }
}

pub(crate) mod calls {
    use crate::names::Names;
    use crate::token::FencingToken;

    pub(crate) fn extended_keys(_: &Names, _: FencingToken) -> usize {
        0
    }
}

pub(crate) mod field {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Field;
}

pub(crate) mod reply {
    use std::num::NonZeroU64;

    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Behind {
        pub(crate) waiting: u32,
        pub(crate) first: Option<NonZeroU64>,
    }
}

pub(crate) mod waiter {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Waiter {
        pub(crate) ticket: u64,
    }
}
