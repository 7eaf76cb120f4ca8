//! One master on a processor of its own, for figures of one task.
//!
//! The kernel may put the program and its only server on one processor, or on two. On one no sleeping processor is woken,
//! and a pair takes a quarter of the time. Which it is changes from moment to moment, and says nothing about a library.

use std::fs;

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Until it is dropped, a server runs on one processor, and this process on all the others.
pub struct Apart {
    /// Threads with the processors that they had before.
    before: Vec<(Pid, CpuSet)>,
}

impl Apart {
    pub fn from(server: u32) -> Result<Self> {
        let all = sched_getaffinity(None)?;
        let mut processors = (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor));
        let its = processors.next_back().context("a processor")?;
        ensure!(all.count() > 1, "a figure of one master needs two processors");
        let (mut alone, mut others) = (CpuSet::new(), all);
        alone.set(its);
        others.unset(its);
        let mut apart = Self { before: Vec::new() };
        for (process, processors) in [(server, &alone), (std::process::id(), &others)] {
            for thread in threads(process)? {
                apart.before.push((thread, sched_getaffinity(Some(thread))?));
                sched_setaffinity(Some(thread), processors)?;
            }
        }
        Ok(apart)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for (thread, processors) in &self.before {
            // A thread may have ended.
            sched_setaffinity(Some(*thread), processors).ok();
        }
    }
}

fn threads(process: u32) -> Result<Vec<Pid>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        let number = entry?.file_name().to_string_lossy().parse()?;
        threads.push(Pid::from_raw(number).context("a thread's number")?);
    }
    Ok(threads)
}
