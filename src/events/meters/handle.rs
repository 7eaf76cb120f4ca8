//! Handles of the crate `metrics`. Each belongs to the recorder that is installed when it is made, so an application
//! installs its recorder before it connects.

use std::marker::PhantomData;
use std::ops::Index;

use metrics::{Counter, Gauge, Histogram, Label, Unit};

use super::super::kinds::Word;

/// One handle, or one for each value of a label.
pub(super) trait Handle {
    /// Makes a handle with its labels in this order: `labels`, the words of the families around it, `last`.
    fn new(name: &'static str, labels: &[Label], last: &[Label]) -> Self;

    /// Describes the metric to the recorder.
    fn describe(name: &'static str, unit: Unit, help: &'static str);
}

macro_rules! handles {
    ($($handle:ident: $make:ident, $describe:ident;)*) => {$(
        impl Handle for $handle {
            fn new(name: &'static str, labels: &[Label], last: &[Label]) -> Self {
                metrics::$make!(name, [labels, last].concat())
            }

            fn describe(name: &'static str, unit: Unit, help: &'static str) {
                metrics::$describe!(name, unit, help);
            }
        }
    )*};
}

handles! {
    Counter: counter, describe_counter;
    Gauge: gauge, describe_gauge;
    Histogram: histogram, describe_histogram;
}

/// A handle, or a family, for each word of a kind.
#[derive(Debug)]
pub(super) struct Family<W, H>(Box<[H]>, PhantomData<W>);

impl<W: Word, H: Handle> Handle for Family<W, H> {
    fn new(name: &'static str, labels: &[Label], last: &[Label]) -> Self {
        let of_word = |word: &W| H::new(name, &[labels, &[Label::new(W::KEY, word.word())]].concat(), last);
        Self(W::ALL.iter().map(of_word).collect(), PhantomData)
    }

    fn describe(name: &'static str, unit: Unit, help: &'static str) {
        H::describe(name, unit, help);
    }
}

impl<W: Word, H> Index<W> for Family<W, H> {
    type Output = H;

    fn index(&self, word: W) -> &H {
        &self.0[word.index()]
    }
}
