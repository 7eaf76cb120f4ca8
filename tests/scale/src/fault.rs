//! Faults that come again and again, and go.

use std::time::Duration;

use multilock::sim::{Cluster, Direction, Keep, Network};
use tokio::time::{Instant, sleep};

use crate::region;

/// Time from one strike to the next.
const PERIOD: Duration = Duration::from_secs(90);
/// Time for which a strike lasts.
const LENGTH: Duration = Duration::from_secs(30);

/// Fault that lasts for half a minute of each minute and a half, on another master or region each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A master is killed, and comes back without its data.
    Killed,
    /// A master stands still.
    Frozen,
    /// A region's masters answer 200 ms later.
    Slow,
    /// Clients of one region cannot reach the masters of another.
    CutOff,
    /// All connections to one master end, every second.
    Reset,
    /// A master's wall clock is set forward by two seconds.
    ClockStep,
    /// A region's masters are killed, and come back with their data.
    RegionLost,
    /// The masters of two regions stand still: nobody has a quorum.
    MajorityFrozen,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::Killed,
        Self::Frozen,
        Self::Slow,
        Self::CutOff,
        Self::Reset,
        Self::ClockStep,
        Self::RegionLost,
        Self::MajorityFrozen,
    ];

    /// Its name in the table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
            Self::Slow => "slow",
            Self::CutOff => "cut-off",
            Self::Reset => "reset",
            Self::ClockStep => "clock-step",
            Self::RegionLost => "region-lost",
            Self::MajorityFrozen => "majority-frozen",
        }
    }

    /// Strikes until `end`. Everything works again when it returns. Returns how often it has struck.
    pub(crate) async fn strike(self, cluster: &Cluster, networks: &[Network], end: Instant) -> usize {
        let mut strikes = 0;
        loop {
            sleep(PERIOD.saturating_sub(LENGTH)).await;
            if Instant::now() + LENGTH >= end {
                return strikes;
            }
            self.once(cluster, networks, strikes).await;
            strikes += 1;
        }
    }

    async fn once(self, cluster: &Cluster, networks: &[Network], turn: usize) {
        let (one, region) = (turn % region::MASTERS, turn % region::REGIONS);
        let master = cluster.master(one);
        let masters = || region::masters(region).map(|master| cluster.master(master));
        match self {
            Self::Killed => {
                master.crash();
                sleep(LENGTH).await;
                master.restart(Keep::Nothing);
            }
            Self::Frozen => {
                master.freeze();
                sleep(LENGTH).await;
                master.thaw();
            }
            Self::Slow => {
                masters().for_each(|master| master.set_delay(Duration::ZERO, Duration::from_millis(200)));
                sleep(LENGTH).await;
                masters().for_each(|master| master.set_delay(Duration::ZERO, Duration::ZERO));
            }
            Self::CutOff => {
                let elsewhere = (region + 1) % region::REGIONS;
                let of_region = || {
                    let clients = networks.iter().enumerate();
                    let there = clients.filter(|(client, _)| region::of_client(*client) == region);
                    there.flat_map(|(_, network)| {
                        region::masters(elsewhere).map(move |master| (network, master))
                    })
                };
                of_region().for_each(|(network, master)| network.cut(master, Direction::Both));
                sleep(LENGTH).await;
                of_region().for_each(|(network, master)| network.heal(master));
            }
            Self::Reset => {
                for _ in 0..LENGTH.as_secs() {
                    master.reset_connections();
                    sleep(Duration::from_secs(1)).await;
                }
            }
            Self::ClockStep => {
                master.set_clock_forward(Duration::from_secs(2));
                sleep(LENGTH).await;
            }
            Self::RegionLost => {
                masters().for_each(multilock::sim::Master::crash);
                sleep(LENGTH).await;
                masters().for_each(|master| master.restart(Keep::Data));
            }
            Self::MajorityFrozen => {
                let others = || {
                    cluster
                        .iter()
                        .enumerate()
                        .filter(|(master, _)| region::of_master(*master) != region)
                };
                others().for_each(|(_, master)| master.freeze());
                sleep(LENGTH).await;
                others().for_each(|(_, master)| master.thaw());
            }
        }
    }
}
