//! Three regions with three masters each.

use std::time::Duration;

use multilock::sim::Network;

pub(crate) const REGIONS: usize = 3;
pub(crate) const MASTERS: usize = 9;

/// Round trip within a region, to the next one, and to the third, in milliseconds.
const ROUND_TRIPS: [u64; REGIONS] = [1, 30, 80];

/// Region of a master.
pub(crate) fn of_master(master: usize) -> usize {
    master / (MASTERS / REGIONS)
}

/// Region of a client.
pub(crate) fn of_client(client: usize) -> usize {
    client % REGIONS
}

/// Masters of a region.
pub(crate) fn masters(region: usize) -> impl Iterator<Item = usize> {
    (0..MASTERS).filter(move |master| of_master(*master) == region)
}

/// Round trip of a client to a master, where regions are `percent` as far apart as by default.
fn round_trip(client: usize, master: usize, percent: u32) -> Duration {
    let apart = (of_master(master) + REGIONS - of_client(client)) % REGIONS;
    let near = Duration::from_millis(ROUND_TRIPS[0]);
    near.max(Duration::from_millis(ROUND_TRIPS[apart]) * percent / 100)
}

/// A client's network.
pub(crate) fn network(client: usize, percent: u32) -> Network {
    let network = Network::new(MASTERS);
    for master in 0..MASTERS {
        network.set_distance(master, round_trip(client, master, percent));
    }
    network
}
