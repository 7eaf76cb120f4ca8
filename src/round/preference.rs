//! Order in which a set of names prefers the masters, the same in every client. So two clients that want the same
//! names ask the same masters, and do not split the vote.

use smallvec::SmallVec;

use crate::values::names::Names;

/// A seed for each master, from its label.
pub(crate) struct Preference(Box<[u64]>);

impl Preference {
    pub(super) fn new<'a>(labels: impl Iterator<Item = &'a str>) -> Self {
        Self(labels.map(|label| hash(START, label)).collect())
    }

    /// Masters, the most preferred one first.
    pub(crate) fn of(&self, names: &Names) -> impl Iterator<Item = usize> {
        let name = names.iter().fold(START, hash);
        let scores = self.0.iter().enumerate();
        let mut order: SmallVec<[(u64, usize); 8]> =
            scores.map(|(node, seed)| (mixed(name ^ seed), node)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, node)| node)
    }
}

/// FNV-1a, which has the same result on every host and in every version.
fn hash(before: u64, text: &str) -> u64 {
    text.bytes().fold(before, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Spreads similar numbers over all of them (the last step of `SplitMix64`).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 5] = [
        "10.0.0.1:6379",
        "10.0.0.2:6379",
        "10.0.0.3:6379",
        "10.0.0.4:6379",
        "10.0.0.5:6379",
    ];

    fn order(labels: &[&'static str], name: &str) -> Vec<&'static str> {
        let preference = Preference::new(labels.iter().copied());
        preference.of(&name.into()).map(|node| labels[node]).collect()
    }

    #[test]
    fn clients_that_list_the_masters_in_another_order_prefer_the_same() {
        let turned: Vec<_> = LABELS.iter().rev().copied().collect();
        for name in 0..100 {
            let name = format!("invoice:{name}");
            assert_eq!(order(&LABELS, &name), order(&turned, &name));
        }
    }

    #[test]
    fn each_master_is_preferred_by_its_share_of_names() {
        let mut first = std::collections::BTreeMap::new();
        for name in 0..10_000 {
            *first
                .entry(order(&LABELS, &format!("invoice:{name}"))[0])
                .or_insert(0) += 1;
        }
        assert!(
            first.len() == 5 && first.values().all(|count| (1800..2200).contains(count)),
            "{first:?}"
        );
    }
}
