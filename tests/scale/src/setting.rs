//! One row of the table: how much of everything there is.

use crate::fault::Fault;

/// Clients, names and distance of the full size.
const CLIENTS: u32 = 1000;
const NAMES: u32 = 100_000;
const DISTANCE: u32 = 100;

/// A run's size and its fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) clients: u32,
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

/// Size that grows from row to row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    Clients,
    Names,
    Distance,
}

impl Size {
    const ALL: [Self; 3] = [Self::Clients, Self::Names, Self::Distance];

    /// The values of the rows, with that of the full size among them.
    const fn values(self) -> &'static [u32] {
        match self {
            Self::Clients => &[10, 30, 100, 300, CLIENTS],
            Self::Names => &[NAMES, 10_000, 1000, 100],
            Self::Distance => &[0, 50, DISTANCE, 200],
        }
    }

    pub(crate) fn of(self, setting: &Setting) -> u32 {
        match self {
            Self::Clients => setting.clients,
            Self::Names => setting.names,
            Self::Distance => setting.distance,
        }
    }

    /// The full size but for this one.
    fn alone(self, value: u32, minutes: u64) -> Setting {
        let mut setting = Setting::full(minutes);
        match self {
            Self::Clients => setting.clients = value,
            Self::Names => setting.names = value,
            Self::Distance => setting.distance = value,
        }
        setting
    }

    /// Whether a row is the full size but for this one, and without a fault.
    pub(crate) fn is_varied_by(self, setting: &Setting) -> bool {
        *setting == self.alone(self.of(setting), setting.minutes)
    }
}

/// All rows: each size alone, and then the full size under each fault.
pub(crate) fn all(minutes: u64) -> Vec<Setting> {
    let mut all = Vec::new();
    for size in Size::ALL {
        for value in size.values() {
            let setting = size.alone(*value, minutes);
            if !all.contains(&setting) {
                all.push(setting);
            }
        }
    }
    all.extend(Fault::ALL.map(|fault| Setting {
        fault: Some(fault),
        ..Setting::full(minutes)
    }));
    all
}
