//! A job that a quorum knows to be done is not begun again in its time.
//!
//! Source: the guarantees on jobs. It is judged up to the first fault that takes keys away from a master, since marks are
//! lost with it. A mark may end early by as much as clocks of masters were moved.

use std::time::Duration;

use super::Case;
use crate::history::Kind;

/// The clocks of masters and of the run are read at different moments.
const APART: Duration = Duration::from_millis(100);

pub(super) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let mut done = Vec::new();
    let mut apart = APART;
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Fault { forgets, .. } if !forgets.is_empty() => return None,
            Kind::Slipped { by, .. } | Kind::SetBack { by, .. } => apart += *by,
            // The mark counts from the end of the body, also if a quorum has it later.
            Kind::JobDone { name, ended, keep } => done.push((place, name, *ended, *keep)),
            Kind::JobBegun { name, keep } => {
                // The shorter time counts.
                let is_early = |at: Duration, its: Duration| event.at + apart < at + its.min(*keep);
                let again = done
                    .iter()
                    .find(|(_, of, at, its)| *of == name && is_early(*at, *its));
                if let Some((before, ..)) = again {
                    return Some((format!("the job {name} is begun again"), vec![*before, place]));
                }
            }
            _ => {}
        }
    }
    None
}
