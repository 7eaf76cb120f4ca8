//! The files on time, over a clock that stands still: a model must not depend on when it runs.

#[path = "../../../src/time/steps.rs"]
pub(crate) mod steps;
#[path = "../../../src/time/until.rs"]
pub(crate) mod until;
#[path = "../../../src/time/validity.rs"]
pub(crate) mod validity;

pub(crate) mod clock {
    use std::time::Duration;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Clock(pub(crate) Moment);

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Moment(pub(crate) u128);

    impl Clock {
        pub(crate) fn now(self) -> Moment {
            self.0
        }
    }

    impl Moment {
        pub(crate) fn since(self, earlier: Self) -> Duration {
            Duration::from_nanos(self.ns_since(earlier))
        }

        pub(crate) fn ns_since(self, earlier: Self) -> u64 {
            u64::try_from(self.0 - earlier.0).unwrap_or(u64::MAX)
        }
    }
}
