//! A recorder of metrics, as an application installs one, on the thread of one test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, LocalRecorderGuard, Metadata, Recorder,
    SharedString, Unit, set_default_local_recorder,
};

/// Figures that the recorder has received.
pub(crate) struct Figures {
    kept: &'static Kept,
    _installed: LocalRecorderGuard<'static>,
}

/// One series: its name, and its labels in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
}

impl Series {
    fn of(key: &Key) -> Self {
        let labels = key.labels();
        let mut labels: Vec<_> = labels
            .map(|label| (label.key().to_owned(), label.value().to_owned()))
            .collect();
        labels.sort();
        Self {
            name: key.name().to_owned(),
            labels,
        }
    }

    fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let is_there = |(key, value): &(&str, &str)| {
            let mut own = self.labels.iter();
            own.any(|(own, its)| own == key && its == value)
        };
        self.name == format!("multilock_{name}") && labels.iter().all(is_there)
    }
}

/// Description of a figure for an exporter: its kind, its unit and its help.
pub(crate) type Described = (&'static str, Option<Unit>, String);

#[derive(Default)]
struct Kept {
    counters: Mutex<BTreeMap<Series, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<Series, Arc<AtomicU64>>>,
    histograms: Mutex<BTreeMap<Series, Arc<Durations>>>,
    described: Mutex<BTreeMap<String, Described>>,
}

#[derive(Default)]
struct Durations(Mutex<Vec<f64>>);

impl HistogramFn for Durations {
    fn record(&self, value: f64) {
        self.0.lock().expect("no panic").push(value);
    }
}

fn register<T: Default>(kept: &Mutex<BTreeMap<Series, Arc<T>>>, key: &Key) -> Arc<T> {
    Arc::clone(kept.lock().expect("no panic").entry(Series::of(key)).or_default())
}

impl Kept {
    fn describe(&self, kind: &'static str, key: &KeyName, unit: Option<Unit>, help: &SharedString) {
        let mut described = self.described.lock().expect("no panic");
        described.insert(key.as_str().to_owned(), (kind, unit, help.to_string()));
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("counter", &key, unit, &help);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("gauge", &key, unit, &help);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("histogram", &key, unit, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(register(&self.counters, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(register(&self.gauges, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(register(&self.histograms, key))
    }
}

impl Figures {
    pub(crate) fn install() -> Self {
        // Its handles may outlive the test.
        let kept: &'static Kept = Box::leak(Box::default());
        Self {
            kept,
            _installed: set_default_local_recorder(kept),
        }
    }

    /// The sum of all counters or gauges of this name with these labels. Panics where there is none.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let mut values = Vec::new();
        for (series, count) in &*self.kept.counters.lock().expect("no panic") {
            if series.has(name, labels) {
                let count = u32::try_from(count.load(Ordering::SeqCst)).expect("few");
                values.push(f64::from(count));
            }
        }
        for (series, bits) in &*self.kept.gauges.lock().expect("no panic") {
            if series.has(name, labels) {
                values.push(f64::from_bits(bits.load(Ordering::SeqCst)));
            }
        }
        assert!(!values.is_empty(), "no {name} with {labels:?}");
        values.iter().sum()
    }

    /// All durations of this name with these labels, in seconds. Panics where there is no such series.
    pub(crate) fn durations(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let histograms = self.kept.histograms.lock().expect("no panic");
        let of_name = histograms.iter().filter(|(series, _)| series.has(name, labels));
        let found: Vec<_> = of_name
            .map(|(_, durations)| durations.0.lock().expect("no panic").clone())
            .collect();
        assert!(!found.is_empty(), "no {name} with {labels:?}");
        found.concat()
    }

    pub(crate) fn series(&self) -> BTreeSet<Series> {
        let mut all = BTreeSet::new();
        all.extend(self.kept.counters.lock().expect("no panic").keys().cloned());
        all.extend(self.kept.gauges.lock().expect("no panic").keys().cloned());
        all.extend(self.kept.histograms.lock().expect("no panic").keys().cloned());
        all
    }

    pub(crate) fn described(&self, name: &str) -> Described {
        let described = self.kept.described.lock().expect("no panic");
        described
            .get(name)
            .cloned()
            .unwrap_or_else(|| panic!("{name} is not described"))
    }
}
