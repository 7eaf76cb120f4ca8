use futures::FutureExt;

use super::*;
use crate::node::waiters::Waiters;
use crate::protocol::waiter::WaiterKind;
use crate::time::clock::Clock;

fn options(name: &str) -> LineOptions {
    LineOptions {
        names: Names::from(name),
        needed: 2,
        lease: Duration::from_secs(30),
        min_validity: Duration::ZERO,
        fenced: true,
        fair: false,
        caption: None,
        hands_on: true,
        kind: HoldKind::Plain,
    }
}

fn new(waiters: &Waiters, ticket: u64) -> QueueEntry {
    let state = waiters.join(3);
    let waiter = Waiter {
        number: state.number,
        ticket,
        comes_within: Duration::from_secs(1),
        only: None,
        kind: WaiterKind::Alone,
        at_first_master: false,
    };
    QueueEntry { waiter, state }
}

/// Result of joining a line, in which numbers are handed on.
type Hand = Result<Turn<u32>, LinePosition<u32>>;

fn next_in_line(ticket: u64) -> NextInLine {
    NextInLine {
        ticket: Some(ticket).filter(|ticket| *ticket > 0),
        begun: Clock::Host.now(),
        renew: true,
        max_hold: None,
        at_least: Duration::ZERO,
        is_sticky: false,
    }
}

fn join(lines: &Arc<Lines<u32>>, options: &LineOptions, entry: QueueEntry) -> Hand {
    let next_in_line = next_in_line(entry.waiter.ticket);
    match lines.join(options, entry, next_in_line, &Arc::new(Mailbox::new())) {
        Joined::Turn(turn) => Ok(turn),
        Joined::Behind(position, _) => Err(position),
        Joined::Concurrent => panic!("not where only one gets it"),
    }
}

async fn delivered(position: &mut LinePosition<u32>) -> Delivery<u32> {
    position.delivered().await.expect("nobody has taken it back")
}

fn turn(delivery: Delivery<u32>) -> Turn<u32> {
    match delivery {
        Delivery::Turn(turn) => turn,
        _ => panic!("something else was delivered"),
    }
}

#[tokio::test]
async fn the_turn_goes_by_tickets_and_past_those_who_left() {
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let join = |ticket| join(&lines, &options("a"), new(&waiters, ticket));
    let first = join(5).ok().expect("nobody is ahead");
    let behind = |ticket| join(ticket).err().expect("behind others");
    let (mut third, mut second, mut gone) = (behind(9), behind(7), behind(8));
    let next = |turn: &Turn<u32>| turn.line().next(&"a".into()).map(|next| next.waiter.ticket);
    assert_eq!(next(&first), Some(7));
    assert_eq!(
        first.line().next(&"b".into()).map(|next| next.waiter.ticket),
        None
    );
    assert!(gone.withdraw().is_none());
    drop(first);
    let second = turn(delivered(&mut second).await);
    assert_eq!(next(&second), Some(9));
    // The second task was given the turn, and is dropped before it could take it.
    drop(second);
    drop(third.withdraw());
    assert!(lines.lines.lock().is_empty());
    assert!(join(1).is_ok());
}

/// The tasks behind the next one learn nothing of the first, and no task asks for it.
#[tokio::test]
async fn one_that_asked_first_is_in_front_until_its_turn_ends() {
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let first = join(&lines, &options("a"), new(&waiters, 1))
        .ok()
        .expect("nobody is ahead");
    let mut second = join(&lines, &options("a"), new(&waiters, 2))
        .err()
        .expect("behind");
    assert!(matches!(lines.in_front(&options("a")), Some(InFront::Asks(_))));
    drop(first);
    let second = turn(delivered(&mut second).await);
    assert!(lines.in_front(&options("a")).is_none());
    drop(second);
}

#[tokio::test]
async fn who_let_its_turn_go_waits_for_it_anew() {
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let again = new(&waiters, 7);
    let join = |one: QueueEntry| join(&lines, &options("a"), one);
    let first = join(new(&waiters, 5)).ok().expect("nobody is ahead");
    let mut position = join(again.clone()).err().expect("behind another");
    drop(first);
    drop(position.withdraw());
    let _other = join(new(&waiters, 9)).ok().expect("nobody is ahead");
    let mut position = join(again).err().expect("behind another");
    assert!(position.delivered().now_or_never().is_none());
}

#[tokio::test]
async fn who_wants_something_else_has_a_line_of_its_own() {
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let _one = join(&lines, &options("a"), new(&waiters, 1)).ok().expect("first");
    let all = LineOptions {
        needed: 3,
        ..options("a")
    };
    assert!(join(&lines, &all, new(&waiters, 2)).is_ok());
    assert!(join(&lines, &options("b"), new(&waiters, 3)).is_ok());
    assert!(join(&lines, &options("a"), new(&waiters, 4)).is_err());
}

#[tokio::test]
async fn what_is_passed_goes_to_the_next_one_and_leaves_the_turn_where_it_is() {
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let join = |ticket| join(&lines, &options("a"), new(&waiters, ticket));
    let first = join(5).ok().expect("nobody is ahead");
    assert!(!first.line().hand_on(|_, _| Some(1)), "nobody is behind");
    let behind = |ticket| join(ticket).err().expect("behind others");
    let (mut second, mut third) = (behind(7), behind(9));
    assert!(!first.line().hand_on(|_, _| None), "nothing to give");
    assert!(
        first
            .line()
            .hand_on(|_, next| (next.ticket == Some(7)).then_some(2))
    );
    assert!(matches!(delivered(&mut second).await, Delivery::Hold(2)));
    assert!(second.withdraw().is_none(), "it has taken it");
    assert!(first.line().hand_on(|_, _| Some(3)));
    assert!(matches!(third.withdraw(), Some(Delivery::Hold(3))), "it has not");
    let mut fourth = behind(11);
    drop(first);
    turn(delivered(&mut fourth).await);
}

#[tokio::test]
async fn who_reads_asks_beside_others_until_one_is_refused() {
    let (lines, waiters) = (Arc::new(Lines::<u32>::new()), Waiters::default());
    let reading = LineOptions {
        kind: HoldKind::Read,
        ..options("a")
    };
    let join = |ticket| {
        let mailbox = Arc::new(Mailbox::new());
        lines.join(&reading, new(&waiters, ticket), next_in_line(ticket), &mailbox)
    };
    let Joined::Turn(first) = join(5) else {
        panic!("nobody is ahead");
    };
    assert!(matches!(join(6), Joined::Concurrent));
    lines.refused(&reading);
    let (Joined::Behind(mut second, _), Joined::Behind(mut third, _)) = (join(7), join(8)) else {
        panic!("behind one that was refused");
    };
    first.open();
    let Delivery::Turn(next) = delivered(&mut second).await else {
        panic!("the oldest one is in front");
    };
    assert!(matches!(delivered(&mut third).await, Delivery::Concurrent));
    assert!(matches!(join(10), Joined::Concurrent));
    lines.refused(&reading);
    assert!(matches!(join(11), Joined::Behind(..)));
    next.open();
    assert!(lines.lines.lock().is_empty());
    assert!(matches!(join(9), Joined::Turn(_)));
}

/// A call that does not wait for a holder has the last ticket.
#[tokio::test]
async fn one_without_a_ticket_comes_before_calls_that_do_not_wait() {
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let join = |ticket| join(&lines, &options("a"), new(&waiters, ticket));
    let mut first = join(5).ok().expect("nobody is ahead");
    let behind = |ticket| join(ticket).err().expect("behind others");
    let (mut try_only, mut without, mut after) = (behind(LAST), behind(0), behind(7));
    assert!(first.line().has_waiters());
    for expected in [&mut without, &mut after, &mut try_only] {
        drop(first);
        first = turn(delivered(expected).now_or_never().expect("it is the next"));
    }
}

#[tokio::test]
async fn one_without_a_ticket_keeps_the_place_in_which_it_came() {
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let join = |ticket| join(&lines, &options("a"), new(&waiters, ticket));
    let mut first = join(5).ok().expect("nobody is ahead");
    let behind = |ticket| join(ticket).err().expect("behind others");
    let (mut before, mut without, mut after, mut older) = (behind(7), behind(0), behind(9), behind(6));
    assert!(first.line().next(&"a".into()).is_some());
    for expected in [&mut older, &mut before] {
        drop(first);
        first = turn(delivered(expected).await);
    }
    assert!(
        first.line().next(&"a".into()).is_none(),
        "it cannot be in a queue yet"
    );
    without.ticket_setter()(11);
    assert_eq!(
        first.line().next(&"a".into()).map(|next| next.waiter.ticket),
        Some(11)
    );
    for expected in [&mut without, &mut after] {
        drop(first);
        first = turn(delivered(expected).await);
    }
}

#[tokio::test]
async fn many_leave_in_any_order_at_once() {
    const MANY: u64 = 64_000;
    let (lines, waiters) = (Arc::new(Lines::new()), Waiters::default());
    let join = |ticket| join(&lines, &options("a"), new(&waiters, ticket));
    let first = join(1).ok().expect("nobody is ahead");
    let begun = std::time::Instant::now();
    let mut line_tickets: Vec<_> = (2..MANY)
        .map(|ticket| join(ticket).err().expect("behind"))
        .collect();
    let joined = begun.elapsed();
    let begun = std::time::Instant::now();
    while let Some(mut last) = line_tickets.pop() {
        drop(last.withdraw());
    }
    let last_first = begun.elapsed();
    assert!(first.line().line.behind.lock().is_empty());
    // A search through the line would take time for each task that is left.
    assert!(last_first < joined * 20, "{last_first:?}, and {joined:?} to join");
}
