//! Counts of events of the random steps.

/// Number of times that each event of interest has happened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ours: usize,
    pub(crate) theirs: usize,
    pub(crate) refused: usize,
    pub(crate) late: usize,
    pub(crate) together: usize,
    pub(crate) downgraded: usize,
    pub(crate) lapsed: usize,
    pub(crate) deleted: usize,
    pub(crate) lost: usize,
    pub(crate) passed: usize,
}

impl Counts {
    pub(crate) fn check(&self, least: usize) {
        let Self {
            ours,
            theirs,
            refused,
            late,
            together,
            downgraded,
            lapsed,
            deleted,
            lost,
            passed,
        } = *self;
        let all = [
            ours, theirs, refused, late, together, downgraded, lapsed, deleted, lost, passed,
        ];
        assert!(all.iter().all(|count| *count >= least), "{self:?}");
    }
}
