//! The promises, and the states that must be possible.

use stateright::Property;

use super::model::Shared;
use super::scope::Scope;
use super::state::{ATTEMPTS, Breach, Client, Event, Kind, MASTERS, Phase, State, field_of};

/// At any instant one guard that writes has validity left, or any number of guards that read.
pub(super) const EXCLUSION: &str = "one valid writer or any number of valid readers";
/// A valid hold stands on a quorum of masters while it is valid. Masters in quarantine count, as they have forgotten
/// their grants.
pub(super) const COVERED: &str = "a valid hold is covered by a quorum";
/// A key in mode read ends with the last deadline of its readers.
pub(super) const OWN_END: &str = "a key ends with its last reader";
/// No key goes from read to write while a field in it stays.
pub(super) const ONE_WAY: &str = "no key turns from read to write";
/// The cover of a hold on a master shrinks only by time and its release.
pub(super) const LEASE: &str = "no lease is shortened";
/// A field on a master is a present hold's or attempt's, or its release is to come.
pub(super) const NO_ORPHAN: &str = "nothing is left behind";
/// When all is quiet no master stores anything.
pub(super) const QUIET: &str = "quiet means free";

/// The properties of a scope.
pub(super) fn of(scope: &Scope) -> Vec<Property<Shared>> {
    let promises = [
        Property::always(EXCLUSION, |_: &Shared, state: &State| {
            match state.valid(Kind::Write) {
                0 => true,
                1 => state.valid(Kind::Read) == 0,
                _ => false,
            }
        }),
        Property::always(COVERED, is_covered),
        Property::always(OWN_END, |_, state: &State| {
            let masters = state.columns.iter().map(|column| &column.master);
            masters
                .filter(|master| master.mode == Some(Kind::Read))
                .all(|master| master.ttl == master.last_deadline())
        }),
        Property::always(ONE_WAY, |_, state: &State| !state.has_breach(Breach::ModeTurned)),
        Property::always(LEASE, |_, state: &State| !state.has_breach(Breach::LeaseShrank)),
        Property::always(NO_ORPHAN, |_, state| {
            (0..MASTERS).all(|master| is_accounted_for(state, master))
        }),
        Property::always(QUIET, |_, state: &State| {
            !state.is_quiet() || state.columns.iter().all(|column| column.master.mode.is_none())
        }),
    ];
    let kept = promises
        .into_iter()
        .filter(|property| !scope.not_promised.contains(&property.name));
    let witnessed = witnesses()
        .into_iter()
        .filter(|property| scope.witnesses.contains(&property.name));
    kept.chain(witnessed).collect()
}

fn is_covered(model: &Shared, state: &State) -> bool {
    let holding = state.clients.iter().enumerate();
    holding
        .filter(|(_, client)| client.phase == Phase::Holding && client.left > 0)
        .all(|(number, client)| {
            let field = field_of(number, client.attempt());
            let masters = state.columns.iter().map(|column| &column.master);
            // A reader is also covered by a field that still says that it writes: that is only stricter.
            let stands = masters.filter(|master| {
                let mode = client.kind == Kind::Read || master.mode == Some(Kind::Write);
                mode && master.cover(field) >= client.left || master.quarantine > 0
            });
            stands.count() >= model.scope.quorum[number]
        })
}

fn is_accounted_for(state: &State, master: usize) -> bool {
    let column = &state.columns[master];
    column.master.fields().all(|field| {
        let (client, link) = (&state.clients[field / ATTEMPTS], &column.links[field / ATTEMPTS]);
        let attempt = u8::from(field % ATTEMPTS != 0);
        let present = client.phase != Phase::Idle && client.attempt() == attempt;
        let touched = link.touched & 1 << attempt != 0;
        touched && (present || client.lapsed & 1 << attempt != 0)
            || link.line.releases(attempt)
            || link.owed.releases(attempt)
    })
}

/// Witnesses: states that must be possible somewhere.
fn witnesses() -> Vec<Property<Shared>> {
    macro_rules! witness {
        ($name:literal, $event:ident) => {
            Property::sometimes($name, |_: &Shared, state: &State| {
                state.has_seen(Event::$event)
            })
        };
    }
    vec![
        witness!("an extension", Extended),
        witness!("a retake", Retaken),
        witness!("a late writer finds readers", LateWriter),
        witness!("a missed downgrade is made up for", Healed),
        witness!("a leaver brings the end nearer", Settled),
        witness!("a quarantined answer", Quarantined),
        Property::sometimes("two readers at once", |_, state: &State| {
            state.valid(Kind::Read) == 2
        }),
        Property::sometimes(
            "a reader beside a downgraded hold",
            |model: &Shared, state: &State| {
                let down = |number: usize| {
                    model.scope.kinds[number] == Kind::Write && state.clients[number].is_valid(Kind::Read)
                };
                state.valid(Kind::Read) == 2 && (0..state.clients.len()).any(down)
            },
        ),
        Property::sometimes(
            "a writer after a reader that never left",
            |model: &Shared, state: &State| {
                let gone = |number: usize| {
                    let client: &Client = &state.clients[number];
                    model.scope.kinds[number] == Kind::Read && client.lapsed != 0
                };
                state.valid(Kind::Write) > 0 && (0..state.clients.len()).any(gone)
            },
        ),
    ]
}
