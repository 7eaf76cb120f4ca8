//! One row of the table: how much of everything there is.

use crate::fault::Fault;

/// Clients, names and distance of the full size.
const CLIENTS: usize = 1000;
const NAMES: u32 = 100_000;
const DISTANCE: u32 = 100;

/// A run's size and its fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) clients: usize,
    pub(crate) names: u32,
    /// Of the distances between regions, in per cent.
    pub(crate) distance: u32,
    pub(crate) fault: Option<Fault>,
    /// Virtual time.
    pub(crate) minutes: u64,
}

impl Setting {
    fn full(minutes: u64) -> Self {
        Self {
            clients: CLIENTS,
            names: NAMES,
            distance: DISTANCE,
            fault: None,
            minutes,
        }
    }

    /// Arguments of the process that runs it.
    pub(crate) fn words(&self) -> [String; 5] {
        [
            self.clients.to_string(),
            self.names.to_string(),
            self.distance.to_string(),
            self.fault.map_or("none", Fault::word).to_owned(),
            self.minutes.to_string(),
        ]
    }

    /// Takes in these arguments.
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let [clients, names, distance, fault, minutes] = words else {
            return None;
        };
        Some(Self {
            clients: clients.parse().ok()?,
            names: names.parse().ok()?,
            distance: distance.parse().ok()?,
            fault: Fault::ALL.into_iter().find(|one| one.word() == fault),
            minutes: minutes.parse().ok()?,
        })
    }
}

/// All rows: each size alone, and then the full size under each fault.
pub(crate) fn all(minutes: u64) -> Vec<Setting> {
    let full = || Setting::full(minutes);
    let mut all = Vec::new();
    all.extend([10, 100].map(|clients| Setting { clients, ..full() }));
    all.push(full());
    all.extend([10_000, 1000, 100].map(|names| Setting { names, ..full() }));
    all.extend([0, 200].map(|distance| Setting { distance, ..full() }));
    all.extend(Fault::ALL.map(|fault| Setting {
        fault: Some(fault),
        ..full()
    }));
    all
}
