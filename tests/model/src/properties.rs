//! The promises, and the states that must be possible.

use stateright::Property;

use crate::client::{Client, Phase};
use crate::model::Protocol;
use crate::node::Node;
use crate::scope::Scope;
use crate::state::{Breach, Event, NODES, Owner, State};

/// At any instant at most one guard has validity left.
pub(crate) const ONE_HOLD: &str = "one valid hold";
/// A hold with validity left stands on a quorum of nodes. Nodes in quarantine count, as they may have forgotten it.
pub(crate) const STANDS: &str = "a valid hold stands on a quorum";
/// A field on a node is a present hold's or attempt's, or its release is to come.
pub(crate) const NO_ORPHAN: &str = "nothing is left behind";
/// When all is quiet no node holds anything.
pub(crate) const QUIET: &str = "quiet means free";
/// No token is handed out twice.
pub(crate) const TOKENS_UNIQUE: &str = "tokens are unique";
/// Tokens are handed out in rising order.
pub(crate) const TOKENS_RISE: &str = "tokens rise";
/// A hold that has lapsed never has validity again.
pub(crate) const LOST_IS_LOST: &str = "lost is terminal";
/// No hold is handed out after its time.
pub(crate) const IN_TIME: &str = "no hold is handed out late";
/// The remaining lease of a hold on a node falls only by time and release.
pub(crate) const TTL: &str = "no lease is shortened";
/// No grant is released a second time.
pub(crate) const RELEASED_ONCE: &str = "a grant is released once";
/// A node where an attempt holds accepts its raised token.
pub(crate) const ONE_RAISE: &str = "one raise is enough";
/// An extension counts forgetful nodes only as long as every quorum meets it outside them.
pub(crate) const REMEMBERED: &str = "an extension rests on nodes that remember";
/// An owner that was forced out of a node does not come back there.
pub(crate) const FORCED_OUT: &str = "forced out is out";

/// The properties of a scope.
pub(crate) fn of(scope: &Scope) -> Vec<Property<Protocol>> {
    let promises = [
        Property::always(ONE_HOLD, |_: &Protocol, state: &State| {
            let valid = state.clients.iter().filter(|client| client.is_valid());
            valid.count() <= 1 && !state.has_breach(Breach::Overlap)
        }),
        Property::always(STANDS, valid_stands),
        Property::always(NO_ORPHAN, |model, state| {
            (0..NODES).all(|node| is_accounted_for(model, state, node))
        }),
        Property::always(QUIET, |_, state: &State| {
            !state.is_quiet() || state.columns.iter().all(|column| column.node.holder.is_none())
        }),
        Property::always(TOKENS_UNIQUE, |_, state: &State| {
            !state.has_breach(Breach::TokenTwice)
        }),
        Property::always(TOKENS_RISE, |_, state: &State| {
            !state.has_breach(Breach::TokenFell)
        }),
        Property::always(LOST_IS_LOST, |_, state: &State| {
            !state.has_breach(Breach::Revived)
        }),
        Property::always(IN_TIME, |_, state: &State| !state.has_breach(Breach::TooLate)),
        Property::always(TTL, |_, state: &State| !state.has_breach(Breach::TtlShrank)),
        Property::always(RELEASED_ONCE, |_, state: &State| {
            !state.has_breach(Breach::ReleasedTwice)
        }),
        Property::always(ONE_RAISE, |_, state: &State| {
            !state.has_breach(Breach::RaiseRefused)
        }),
        Property::always(REMEMBERED, |_, state: &State| {
            !state.has_breach(Breach::Forgetful)
        }),
        Property::always(FORCED_OUT, |_, state: &State| {
            let back =
                |column: &crate::state::Column| !column.node.force_due && column.node.holder == state.forced;
            state.forced.is_none() || !state.columns.iter().any(back)
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

/// Witnesses: states that must be possible somewhere.
fn witnesses() -> Vec<Property<Protocol>> {
    macro_rules! witness {
        ($name:literal, $event:ident) => {
            Property::sometimes($name, |_: &Protocol, state: &State| {
                state.has_seen(Event::$event)
            })
        };
    }
    vec![
        witness!("a grant", Granted),
        witness!("a refused rival wins", RivalWon),
        witness!("a rollback", RolledBack),
        witness!("an extension", Extended),
        witness!("a retake counts", RetakeCounted),
        witness!("a lapse", Lapsed),
        witness!("a raise", Raised),
        witness!("a re-entry", Reentered),
        witness!("a force", Forced),
        witness!("a late arrival", LateArrival),
        witness!("a quarantined answer", Quarantined),
        witness!("a pass", PassedOn),
        witness!("an extension between two holds", ExtendedBetween),
        Property::sometimes(
            "asleep while passing on, and a rival holds",
            |_, state: &State| {
                let asleep = |client: &Client| client.phase == Phase::Between && client.left == 0;
                state.clients.iter().any(asleep) && state.clients.iter().any(Client::is_valid)
            },
        ),
        Property::sometimes("quiet after a grant", |_, state: &State| {
            state.issued != 0 && state.is_quiet()
        }),
    ]
}

fn valid_stands(model: &Protocol, state: &State) -> bool {
    state
        .clients
        .iter()
        .enumerate()
        .filter(|(_, client)| client.is_valid())
        .all(|(number, client)| {
            let attempt = if model.scope.rules.fresh_owner {
                client.attempt()
            } else {
                0
            };
            let owner = Some(Owner::new(number, attempt));
            let stands = |node: &Node| node.holder == owner || node.quarantine > 0;
            let standing = state.columns.iter().filter(|column| stands(&column.node)).count();
            standing >= usize::from(client.needs)
        })
}

fn is_accounted_for(model: &Protocol, state: &State, node: usize) -> bool {
    let column = &state.columns[node];
    let Some(owner) = column.node.holder else {
        return true;
    };
    let (client, link) = (&state.clients[owner.client()], &column.links[owner.client()]);
    let fresh = model.scope.rules.fresh_owner;
    let touched = |attempt: u8| link.touched & 1 << attempt != 0;
    let present = client.phase != Phase::Idle && (!fresh || client.attempt() == owner.attempt());
    present && touched(client.attempt())
        || client.lapsed & 1 << owner.attempt() != 0 && touched(owner.attempt())
        || link.will_release(owner)
}
