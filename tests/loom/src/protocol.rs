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
