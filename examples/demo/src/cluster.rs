//! Redis masters of the demo's own: real servers on loopback ports, which end with it.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use multilock_test_support::native::Native;

/// In the order of their numbers, which begin at 1.
#[derive(Debug)]
pub(crate) struct Cluster(Vec<Native>);

impl Cluster {
    pub(crate) async fn start(masters: usize) -> Result<Self> {
        let starting = (0..masters).map(|_| Native::start(&[], &[]));
        let masters = try_join_all(starting).await;
        let masters = masters.context("no masters (--nodes runs the demo on masters of your own)")?;
        Ok(Self(masters))
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.iter().map(|master| master.address.url()).collect()
    }

    /// The end without a word: SIGKILL.
    pub(crate) fn kill(&self, number: usize) -> Result<()> {
        self.master(number)?.kill()
    }

    /// Starts a killed master again, with the data that it had.
    pub(crate) async fn restart(&self, number: usize) -> Result<()> {
        self.master(number)?.restart(true).await
    }

    /// Neither dead nor alive: connections are taken and nothing is answered.
    pub(crate) fn freeze(&self, number: usize) -> Result<()> {
        self.master(number)?.freeze()
    }

    pub(crate) fn thaw(&self, number: usize) -> Result<()> {
        self.master(number)?.thaw()
    }

    fn master(&self, number: usize) -> Result<&Native> {
        let index = number.wrapping_sub(1);
        self.0.get(index).context("there is no such master")
    }
}
