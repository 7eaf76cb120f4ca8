//! The record of each master: which set it is in, on which run of its server that was stored, and since when its
//! memory counts; and the clients that introduce themselves.
//!
//! Three masters, two clients, `RedLock`, one name. A look at a record, the decision by it, and the store are steps of
//! their own. At any time another run takes the place of a server, with the record or without: a restart, or a spare
//! that is new or from a snapshot. Or a master is flushed; a connection, or an attempt at one, fails; or a client's
//! process ends, and another begins that knows nothing. If all clients list the same masters, there are any number of
//! faults.
//!
//! More is allowed here than the protocol allows: a round counts from its first grant on, and a memory from the look.
//! If all clients list the same masters, they do not wait for other masters to tell, and the decision is a part of the
//! look, as it depends on nothing else. Nothing is released. A client is strict, or not connected to a master at the
//! moment of its flush.

mod model;
mod state;
mod step;

use model::{Form, Introductions, NOT_STRANDED, ONE_HOLD};
use state::{FIVE, MASTERS, THREE};

use crate::run::{Verdict, explored, refuted_in};

const ONE_SET: Introductions = Introductions {
    form: Form::Protocol,
    lists: [THREE, THREE],
    new: MASTERS,
    faults: None,
};

/// While one master tells its recorded number, a client of another number changes nothing.
const TWO_NUMBERS: Introductions = Introductions {
    lists: [THREE, FIVE],
    new: 0,
    faults: Some(2),
    ..ONE_SET
};

/// The scopes in which records keep two clients apart, and strand none.
#[must_use]
pub fn explore_record() -> Vec<Verdict> {
    vec![
        explored("records of masters", ONE_SET),
        explored("records of masters, lists of three and five", TWO_NUMBERS),
    ]
}

/// Refutes the weaker forms, and shows the limits of the promise: a client of another number meets three masters that
/// do not tell theirs, or the founding of a set. The new masters and the faults of each are few, for a short way.
#[must_use]
pub fn refute_record() -> Vec<Verdict> {
    use Form::{Alone, Early, NoRun, NoSince, Protocol, Refused, Short, SinceTheLook};
    let form = |name, scope, form, [new, faults]: [u8; 2], breaks, steps| {
        let (new, faults) = (usize::from(new), Some(faults));
        let model = || Introductions {
            form,
            new,
            faults,
            ..scope
        };
        refuted_in(steps, name, model, breaks)
    };
    let same = |name, rule, start, steps| form(name, ONE_SET, rule, start, ONE_HOLD, steps);
    let other = |name, rule, start, breaks, steps| form(name, TWO_NUMBERS, rule, start, breaks, steps);
    vec![
        same("no since", NoSince, [0, 1], 11),
        same("since the look", SinceTheLook, [1, 1], 13),
        same("since only beside others", Alone, [1, 2], 14),
        same("no run", NoRun, [0, 1], 9),
        same("a memory of a lease less one", Short, [0, 1], 11),
        other("a refused client that stores", Refused, [0, 1], NOT_STRANDED, 6),
        other("stored before others tell", Early, [0, 1], NOT_STRANDED, 4),
        other("three masters do not tell", Protocol, [0, 3], NOT_STRANDED, 6),
        other("three and five, new", Protocol, [3, 0], NOT_STRANDED, 5),
        other("three and five, new, apart", Protocol, [3, 0], ONE_HOLD, 17),
    ]
}
