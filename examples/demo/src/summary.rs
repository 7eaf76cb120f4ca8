//! The figures at the end.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::witness::Count;

/// Everything that the last lines tell.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) count: Count,
    /// One line for each master.
    pub(crate) masters: Vec<String>,
    pub(crate) took: Duration,
}

impl Summary {
    pub(crate) fn print(&self, out: &mut impl Write) -> Result<()> {
        let Self { count, masters, took } = self;
        writeln!(out)?;
        for master in masters {
            writeln!(out, "{master}")?;
        }
        writeln!(
            out,
            "jobs: {} invoices charged (RedLock), {} ledgers closed (MultiLock)",
            count.invoices, count.ledgers
        )?;
        if count.unlocked > 0 {
            writeln!(out, "jobs done without a lock, on purpose: {}", count.unlocked)?;
        }
        writeln!(
            out,
            "grants: {}; refused: {} because held by another, {} because unreachable, {} otherwise",
            count.grants(),
            count.contended,
            count.unreachable,
            count.other_refusals
        )?;
        writeln!(
            out,
            "hand-off where somebody waited: p50 {:.1} ms, p99 {:.1} ms, of {}",
            count.handoff_ms(0.5),
            count.handoff_ms(0.99),
            count.handoffs.len()
        )?;
        writeln!(
            out,
            "two at once: {}; locks that lapsed during the work: {}; releases in doubt: {}",
            count.violations, count.lapses, count.troubles
        )?;
        writeln!(
            out,
            "demo: masters={} grants={} refused={} violations={} handoff_p50_ms={:.1} seconds={:.1}",
            masters.len(),
            count.grants(),
            count.refused(),
            count.violations,
            count.handoff_ms(0.5),
            took.as_secs_f64()
        )?;
        out.flush()?;
        Ok(())
    }

    pub(crate) fn verdict(&self) -> Result<()> {
        let count = &self.count;
        if count.violations > 0 {
            bail!(
                "two workers were inside the same thing at once, {} times",
                count.violations
            );
        }
        if count.invoices == 0 {
            bail!("no invoice was ever charged");
        }
        if count.ledgers == 0 {
            bail!("the ledger was never closed");
        }
        Ok(())
    }
}
