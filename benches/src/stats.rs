//! Durations and their statistics.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

#[derive(Clone, Debug)]
pub struct Durations(Histogram<u64>);

impl Default for Durations {
    fn default() -> Self {
        // Three digits; the range grows with the values.
        Self(Histogram::new(3).expect("three digits are allowed"))
    }
}

impl Durations {
    pub fn record(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // Fails only for a histogram that does not grow.
        let _ = self.0.record(nanoseconds);
    }

    pub fn add(&mut self, other: &Self) -> Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// In microseconds.
    pub fn at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }

    pub fn max(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// The upper end of every bucket in nanoseconds, and how many are in it.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.0
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Jain's index: 1 when all have the same, 1/n when one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_equal_shares_is_one_and_of_a_monopoly_one_over_n() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[9.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert!((median([4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
        assert!((median([9.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
