use super::*;

fn node(quarantine: u64) -> NodeStatus {
    NodeStatus {
        node: "a:1".into(),
        connection: Ok(NodeConnection {
            version: "7.0.0".into(),
            capabilities: Capabilities::ALL,
            round_trip: Duration::from_millis(1),
            is_silent: false,
            is_refusing: false,
            quarantine: Duration::from_secs(quarantine),
            clock_offset_us: 0,
        }),
        pending_releases: 0,
        is_overloaded: false,
    }
}

fn connection(node: &mut NodeStatus) -> &mut NodeConnection {
    node.connection.as_mut().expect("connected")
}

fn status(nodes: Vec<NodeStatus>) -> Status {
    Status {
        nodes,
        holds: 0,
        idle: 0,
        waiters: 0,
        closed: false,
    }
}

fn ready(nodes: Vec<NodeStatus>) -> (usize, bool, bool) {
    let status = status(nodes);
    let is_ready = |policy| status.is_ready(policy);
    (
        status.voting(),
        is_ready(Policy::RedLock),
        is_ready(Policy::MultiLock),
    )
}

#[test]
fn ready_is_whoever_would_be_granted() {
    let down = NodeStatus {
        connection: Err(NodeError::Unavailable("refused".into())),
        ..node(0)
    };
    let overloaded = NodeStatus {
        is_overloaded: true,
        ..node(0)
    };
    let mut silent = node(0);
    connection(&mut silent).is_silent = true;
    let mut refusing = node(0);
    connection(&mut refusing).is_refusing = true;
    assert_eq!(ready(vec![node(0); 3]), (3, true, true));
    assert_eq!(ready(vec![node(0), node(0), down.clone()]), (2, true, false));
    assert_eq!(ready(vec![node(0), node(0), overloaded]), (2, true, false));
    assert_eq!(ready(vec![node(0), node(0), refusing]), (2, true, false));
    assert_eq!(ready(vec![node(0), silent, down]), (1, false, false));
    assert!(!status(vec![node(0); 3]).is_ready(Policy::AtLeast(1)));
    let closed = Status {
        closed: true,
        ..status(vec![node(0); 3])
    };
    assert!(!closed.is_ready(Policy::RedLock));
}

#[test]
fn so_few_in_quarantine_as_the_policy_bears_make_ready() {
    let with = |quarantined: usize| {
        let mut nodes = vec![node(0); 5];
        for node in &mut nodes[..quarantined] {
            connection(node).quarantine = Duration::from_secs(9);
        }
        ready(nodes)
    };
    assert_eq!(with(2), (3, true, true));
    assert_eq!(with(3), (2, false, false));
}

#[test]
fn only_what_one_acts_upon_is_a_change() {
    let before = status(vec![node(9)]);
    let changed = |change: fn(&mut Status)| {
        let mut after = before.clone();
        change(&mut after);
        after.differs(&before)
    };
    assert!(!changed(|status| {
        status.holds = 7;
        status.nodes[0].pending_releases = 3;
        let connection = connection(&mut status.nodes[0]);
        connection.quarantine = Duration::from_secs(1);
        connection.round_trip = Duration::from_secs(1);
        connection.clock_offset_us = -5;
    }));
    assert!(changed(|status| status.closed = true));
    assert!(changed(|status| status.nodes[0].is_overloaded = true));
    assert!(changed(|status| {
        connection(&mut status.nodes[0]).quarantine = Duration::ZERO;
    }));
    assert!(changed(|status| connection(&mut status.nodes[0]).is_silent = true));
    assert!(changed(
        |status| connection(&mut status.nodes[0]).version = "8".into()
    ));
    assert!(changed(|status| connection(&mut status.nodes[0])
        .capabilities
        .resp3 = false));
    assert!(changed(|status| {
        status.nodes[0].connection = Err(NodeError::Unavailable("closed".into()));
    }));
}
