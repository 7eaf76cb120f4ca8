//! Output of each example on real masters.

use std::io;
use std::net::{SocketAddr, TcpListener};

use multilock_test_support::{Authority, Cluster, undisturbed};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::join;
use tokio::net::TcpStream;
use tokio::process::ChildStdout;
use tokio::time::{Duration, sleep, timeout};

use crate::built::{example, on, said};

/// Output of an example that ends by itself, on five masters.
async fn on_five(name: &str) -> String {
    let cluster = Cluster::start(5).await;
    said(on(&cluster, name)).await
}

/// Lines that begin so.
fn count(said: &str, start: &str) -> usize {
    said.lines().filter(|line| line.starts_with(start)).count()
}

/// That these are there, one after the other.
fn assert_in_order(said: &str, parts: &[&str]) {
    let mut rest = said;
    for part in parts {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("no '{part}' (any more) in:\n{said}"));
        rest = &rest[at + part.len()..];
    }
}

#[tokio::test]
async fn of_two_clerks_one_charges() {
    let said = on_five("redlock").await;
    assert_eq!(said.matches(": charged 4900 with ").count(), 1, "{said}");
    assert_eq!(said.matches(": someone else is charging it").count(), 1, "{said}");
}

#[tokio::test]
async fn transfers_in_opposite_order_both_come_through() {
    let said = on_five("multilock").await;
    for transfer in ["account:ann -> account:bob: 30", "account:bob -> account:ann: 12"] {
        assert!(
            said.contains(&format!("{transfer}, under 5 of 5 masters")),
            "{said}"
        );
    }
}

#[tokio::test]
async fn an_owner_enters_again_and_leaves_the_outer_hold() {
    let said = on_five("reentrant").await;
    let parts = [
        "locked, count 1",
        "entered again, count 2",
        "unlocked: StillHeld(1)",
        "back in the caller, count 1",
    ];
    assert_in_order(&said, &parts);
    assert!(said.ends_with("unlocked: Released\n"), "{said}");
}

#[tokio::test]
async fn with_a_master_down_a_majority_goes_on_and_all_do_not() {
    let cluster = Cluster::start(5).await;
    let name = "policy_per_call_site";
    let all = said(on(&cluster, name)).await;
    assert!(all.contains("RedLock, 3 of 5 masters: done"), "{all}");
    assert!(all.contains("MultiLock, 5 of 5 masters: done"), "{all}");
    cluster.server(2).freeze().await;
    let few = said(on(&cluster, name)).await;
    cluster.server(2).thaw().await;
    assert!(few.contains("RedLock, 3 of 5 masters: done"), "{few}");
    assert!(
        few.contains("MultiLock, 5 of 5 masters: not possible now"),
        "{few}"
    );
}

#[tokio::test]
async fn a_stale_write_is_rejected_by_the_database() {
    let said = on_five("fencing").await;
    let parts = [
        "is paused beyond its lease",
        "the second holder",
        "its write is accepted",
        "unaware",
        "its write is rejected",
    ];
    assert_in_order(&said, &parts);
}

#[tokio::test]
async fn a_job_that_lost_its_lock_is_stopped_and_the_next_one_goes_on() {
    // Its lease is short.
    undisturbed(Duration::from_millis(500), async || {
        let said = on_five("lost").await;
        let parts = [
            "importing under token ",
            "an operator takes the lock from 1 holder",
            "the import was stopped (TakenAway)",
            " of 200 rows are there",
            "importing under token ",
            "the next one has done the rest",
        ];
        assert_in_order(&said, &parts);
    })
    .await;
}

#[tokio::test]
async fn a_key_stays_until_another_host_wants_it() {
    let said = on_five("sticky").await;
    let parts = [
        "2000 messages for 10 keys: ",
        "saved: ",
        "another host has a key, and 9 stay",
        "closed, and every key is free",
    ];
    assert_in_order(&said, &parts);
}

#[tokio::test]
async fn of_three_hosts_one_runs_the_report() {
    let said = on_five("once_per_period").await;
    assert_eq!(count(&said, "the first host: running it"), 1, "{said}");
    assert_eq!(said.matches("running it").count(), 1, "{said}");
    assert_eq!(said.matches("(confirmed: true)").count(), 2, "{said}");
}

#[tokio::test]
async fn four_workers_share_two_gpus() {
    let said = on_five("permits").await;
    assert_eq!(said.matches(": on GPU ").count(), 4, "{said}");
    assert!(said.contains("on GPU 1,") && said.contains("on GPU 2,"), "{said}");
    assert_eq!(said.matches(": done").count(), 4, "{said}");
}

#[tokio::test]
async fn there_are_three_terms() {
    let said = on_five("leader").await;
    assert_in_order(&said, &["term 1: ", "term 2: ", "term 3: "]);
    assert_eq!(said.matches(" leads, with token ").count(), 3, "{said}");
    assert_eq!(count(&said, "rounds in its last term: "), 1, "{said}");
}

#[tokio::test]
async fn money_that_goes_to_and_fro_is_neither_lost_nor_made() {
    let said = on_five("several").await;
    assert_eq!(count(&said, "10 from "), 10, "{said}");
    assert!(said.ends_with("in the end: 100 and 100\n"), "{said}");
}

#[tokio::test]
async fn nobody_reads_half_a_catalogue() {
    let said = on_five("read_write").await;
    assert_in_order(
        &said,
        &["the writer has raised all prices", "the writer reads [12, 12]"],
    );
    assert_eq!(count(&said, "reader "), 12, "{said}");
    let whole = |line: &&str| line.contains("[10, 10]") || line.contains("[12, 12]");
    assert_eq!(said.lines().filter(whole).count(), 13, "{said}");
}

#[tokio::test]
async fn a_service_on_real_masters_charges_each_invoice_once() {
    let said = on_five("testing").await;
    assert_eq!(
        said.matches("was asked for twice and charged 1 time").count(),
        2,
        "{said}"
    );
}

/// It goes on until it is ended, and tells of a master that goes and comes.
#[tokio::test]
async fn the_status_changes_with_the_masters() {
    let cluster = Cluster::start(3).await;
    let mut command = on(&cluster, "status");
    command.stdout(std::process::Stdio::piped());
    let mut running = command.spawn().expect("a program");
    let output = running.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(output).lines();
    heard(
        &mut lines,
        "3 of 3 have a vote; ready for (RedLock, MultiLock): [true, true]",
    )
    .await;
    cluster.server(1).kill().await;
    heard(
        &mut lines,
        "2 of 3 have a vote; ready for (RedLock, MultiLock): [true, false]",
    )
    .await;
    running.kill().await.expect("it was running");
}

/// A scrape of it has the series of the dashboard, with buckets.
#[tokio::test]
async fn a_service_exports_its_metrics_with_buckets() {
    let cluster = Cluster::start(3).await;
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
    let address = address.expect("an address");
    let mut command = on(&cluster, "metrics");
    command.args([address.to_string(), "8".to_owned()]);
    let (said, scraped) = join!(said(command), timeout(WITHIN, scraped(address)));
    let scraped = scraped.expect("it is scraped while it runs");
    assert_in_order(
        &said,
        &[&format!("metrics at http://{address}/metrics"), "closed"],
    );
    for series in [
        "multilock_acquire_duration_seconds_bucket{",
        "multilock_hold_duration_seconds_bucket{",
        "multilock_node_call_duration_seconds_bucket{",
        "multilock_renew_margin_seconds_bucket{",
        "multilock_round_duration_seconds_bucket{",
    ] {
        assert!(scraped.contains(series), "no {series} in:\n{scraped}");
    }
    assert!(!scraped.contains("quantile="), "a histogram without bounds");
    assert!(scraped.contains("label=\"invoice\""), "{scraped}");
}

const WITHIN: Duration = Duration::from_secs(60);

/// A scrape that shows a lock that was released.
async fn scraped(address: SocketAddr) -> String {
    loop {
        let scraped = scrape(address).await.unwrap_or_default();
        if scraped.contains("multilock_hold_duration_seconds_count{end=\"released\",label=\"invoice\"}") {
            return scraped;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn scrape(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn heard(lines: &mut Lines<BufReader<ChildStdout>>, wanted: &str) {
    let hearing = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            if line == wanted {
                return;
            }
        }
        panic!("it has ended, and did not say: {wanted}");
    };
    timeout(Duration::from_secs(60), hearing).await.expect(wanted);
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_and_no_other() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let servers = ours.servers(3, "no").await;
    let urls = servers
        .iter()
        .map(|server| format!("rediss://localhost:{}", server.tls_port()));
    let urls: Vec<String> = urls.collect();
    let mut command = example("tls");
    command.arg(ours.file("ca.pem")).args(&urls);
    let held = said(command).await;
    assert!(held.starts_with("held on "), "{held}");
    let (_, votes) = held.trim_end().split_once(" with ").expect("votes");
    let granted = votes
        .split("; ")
        .find_map(|answer| answer.strip_suffix(": granted"));
    assert!(granted.is_some_and(|masters| masters.contains(", ")), "{held}");
    let mut command = example("tls");
    command.arg(theirs.file("ca.pem")).args(&urls);
    let refused = command.output().await.expect("a program");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && error.contains("certificate"),
        "{error}"
    );
}
