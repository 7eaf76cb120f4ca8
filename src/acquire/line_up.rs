//! The line of this process in front of the masters' queues. A task waits there for its turn, or for a hold
//! that the task ahead hands on.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use tokio::time::sleep;

use crate::acquire::enter::{acquire, acquire_as};
use crate::acquire::line::LinePlace;
use crate::acquire::outcome::LastRefusal;
use crate::acquire::patience::Patience;
use crate::acquire::pauses::SPLIT;
use crate::acquire::request::AcquireRequest;
use crate::acquire::waiting::Waiting;
use crate::error::LockError;
use crate::events::{EventObserver, WokenBy};
use crate::hold::grant::Hold;
use crate::lock::hold_guard::HoldGuard;
use crate::protocol::tally::LossReason;
use crate::queue::{Delivery, Joined};
use crate::time::until::until;

/// Waits for this process's turn. Breaks with a guard in two cases: the task ahead hands its hold on, or
/// another task of the same owner gets a hold meanwhile, which is then entered.
pub(super) async fn line_up(
    waiting: &mut Waiting<'_>,
    patience: &mut Patience,
    last: &mut LastRefusal,
) -> Result<ControlFlow<HoldGuard>, LockError> {
    let request = waiting.request;
    loop {
        // Nothing depends on the task until it is served.
        waiting.entry.state.present();
        let delivery = match waiting.join_line() {
            Joined::Turn(turn) => {
                waiting.mailbox.put(Delivery::Turn(turn));
                return Ok(ControlFlow::Continue(()));
            }
            Joined::Concurrent => ControlFlow::Continue(Some(Delivery::Concurrent)),
            Joined::Behind(position, asks) => {
                *last = None;
                let place = waiting.place_behind(position, asks);
                // The grant of the line may have become idle just before.
                request.client.idle.offer(&request.names);
                let delivery = request.unless_closed(turn(waiting, place, patience)).await?;
                waiting.entry.state.present();
                if delivery.is_continue() {
                    request.client.pool.events.woken(WokenBy::HandOn);
                }
                delivery
            }
        };
        waiting.forget_clocks();
        let is_concurrent = matches!(delivery, ControlFlow::Continue(Some(Delivery::Concurrent)));
        let attempted = match delivery {
            ControlFlow::Continue(None) => continue,
            ControlFlow::Continue(Some(Delivery::Turn(turn))) => {
                // The caller's time may end before the masters have answered this task.
                *last = turn.line().refusal().map(|why| (0, why));
                waiting.mailbox.put(Delivery::Turn(turn));
                return Ok(ControlFlow::Continue(()));
            }
            ControlFlow::Continue(Some(Delivery::Hold(hold))) => {
                if let Some(guard) = request.accept(hold) {
                    return Ok(ControlFlow::Break(guard));
                }
                // The hold came too late, and has gone on to the next waiter.
                continue;
            }
            ControlFlow::Continue(Some(Delivery::Concurrent)) => {
                waiting.yield_to_foreign().await?;
                let precedence = waiting.concurrent();
                acquire_as(request, precedence, waiting.clocks.take()).await
            }
            // The same owner is inside by now. If it leaves before this task has entered, the task begins again.
            ControlFlow::Break(()) => acquire(request).await,
        };
        match attempted {
            Ok(guard) => return Ok(ControlFlow::Break(guard)),
            Err(refusal) if refusal.reason == LossReason::Final => return Err(refusal.error),
            Err(refusal) => *last = Some((0, Arc::new(refusal.error))),
        }
        if is_concurrent {
            // The masters refuse the task in front likewise, now or soon.
            request.client.lines.refused(&request.options);
        } else {
            request.unless_closed(sleep(waiting.pauses.next(SPLIT))).await?;
        }
    }
}

/// Waits for the turn or hold of this waiter. Breaks when another task of the same owner has got a hold
/// meanwhile.
async fn turn(
    waiting: &mut Waiting<'_>,
    mut place: LinePlace<'_>,
    patience: &mut Patience,
) -> ControlFlow<(), Option<Delivery<Hold>>> {
    let request = waiting.request;
    let set_ticket = place.position.ticket_setter();
    let mut turn = pin!(async {
        tokio::select! {
            biased;
            () = inside(request) => ControlFlow::Break(()),
            delivery = place.position.delivered() => ControlFlow::Continue(delivery),
            () = waiting.draw_late(set_ticket) => ControlFlow::Break(()),
        }
    });
    loop {
        tokio::select! {
            biased;
            delivery = &mut turn => return delivery,
            () = patience.over() => patience.log_if_due(request, None),
        }
    }
}

/// Resolves when another task of the owner is inside.
pub(super) async fn inside(request: &AcquireRequest) {
    let Some(owner) = &request.owner else {
        return std::future::pending().await;
    };
    until(owner.entered(), || request.is_inside().then_some(())).await;
}
