//! The web page for operators, asked as a browser would ask; `tests/browser` looks at it.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use multilock::NodeState;
use multilock_test_support::{Server, WITHIN, connect, held_everywhere, label, three, until};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::stage::{Said, Witness, multilock, said, urls};

const ARGS: &[&str] = &["--appendonly", "no"];

/// A console, and its address.
struct Console {
    process: Child,
    address: SocketAddr,
}

async fn console(servers: &[Server], args: &[&str]) -> Console {
    let mut command = multilock(&urls(servers));
    let mut process = command
        .args(["console", "--listen", "127.0.0.1:0"])
        .args(args)
        .spawn()
        .expect("the command");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let line = timeout(WITHIN, lines.next_line()).await.expect("in time");
    let line = line.expect("text").expect("a line");
    let address = line
        .strip_prefix("multilock: the console is at http://")
        .expect("an address");
    Console {
        address: address.trim_end_matches('/').parse().expect("an address"),
        process,
    }
}

/// Status and text of an answer, with its headers.
struct Answer {
    status: u16,
    text: String,
}

impl Console {
    /// Waits for a line with this text on stderr, ends the console, and returns all that it wrote there.
    async fn journal(mut self, awaited: &str) -> String {
        let stderr = self.process.stderr.take().expect("a pipe");
        let mut stderr = BufReader::new(stderr);
        let mut text = String::new();
        let told = async {
            while !text.contains(awaited) {
                assert_ne!(stderr.read_line(&mut text).await.expect("text"), 0, "{text}");
            }
        };
        timeout(WITHIN, told).await.expect("in time");
        self.process.kill().await.expect("it runs");
        stderr.read_to_string(&mut text).await.expect("text");
        text
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        let mut lines = vec![
            format!("{method} {path} HTTP/1.1"),
            format!("Content-Length: {}", body.len()),
        ];
        if !headers.iter().any(|(name, _)| *name == "Host") {
            lines.push(format!("Host: {}", self.address));
        }
        lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        let request = format!("{}\r\nConnection: close\r\n\r\n{body}", lines.join("\r\n"));
        stream.write_all(request.as_bytes()).await.expect("it reads");
        stream
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.send(method, path, headers, body).await;
        let mut text = String::new();
        timeout(WITHIN, stream.read_to_string(&mut text))
            .await
            .expect("in time")
            .expect("text");
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer {
            status: status.expect("a status"),
            text,
        }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, "").await
    }

    /// Starts a viewer, which reads the events.
    async fn viewer(&self, query: &str) -> Viewer {
        let stream = self.send("GET", &format!("/events?{query}"), &[], "").await;
        Viewer(BufReader::new(stream).lines())
    }
}

struct Viewer(tokio::io::Lines<BufReader<TcpStream>>);

impl Viewer {
    async fn snapshot(&mut self) -> Value {
        let reading = async {
            loop {
                let line = self.0.next_line().await.expect("text").expect("it goes on");
                if let Some(data) = line.strip_prefix("data: ") {
                    return serde_json::from_str(data).expect("JSON");
                }
            }
        };
        timeout(WITHIN, reading).await.expect("in time")
    }

    /// The first snapshot for which this is true.
    async fn until(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let snapshot = self.snapshot().await;
                if is_so(&snapshot) {
                    return snapshot;
                }
            }
        };
        timeout(WITHIN, looking).await.expect("in time")
    }
}

#[tokio::test]
async fn the_page_shows_masters_locks_and_findings() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let console = console(&servers, &[]).await;
    let page = console.get("/", &[]).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("<h1>multilock</h1>"), "{}", page.text);
    let mut viewer = console.viewer("").await;
    let empty = viewer.until(|seen| seen["total"] == 0).await;
    assert_eq!(empty["masters"][0]["state"], "votes");
    let markup = "<img src=x onerror=alert(1)>";
    let guard = held_everywhere(&masters.red_lock([markup, "invoice:1"]).about("ledger of May")).await;
    let seen = viewer.until(|seen| seen["total"] == 2).await;
    assert_eq!(seen["locks"][0]["name"], markup);
    assert_eq!(seen["locks"][1]["holders"], guard.holder().to_string());
    assert_eq!(seen["locks"][1]["about"], "ledger of May");
    assert_eq!(
        (&seen["locks"][1]["on"], &seen["locks"][1]["of"]),
        (&3.into(), &3.into())
    );
    for (text, found) in [
        ("invoice", 1),
        ("INVOICE", 1),
        ("ledger", 2),
        ("%3Cimg", 1),
        ("nothing", 0),
    ] {
        let seen = console.viewer(&format!("text={text}")).await.snapshot().await;
        let locks = seen["locks"].as_array().map(Vec::len);
        assert_eq!((&seen["found"], locks), (&found.into(), Some(found)), "{text}");
    }
    servers[1].kill().await;
    let seen = viewer.until(|seen| seen["masters"][1]["state"] == "away").await;
    assert_eq!(seen["ready"][0]["in_ms"], 0, "a majority is there");
    assert_eq!(seen["ready"][1]["in_ms"], Value::Null, "and not all");
    let seen = viewer.until(|seen| seen["findings"].is_array()).await;
    let findings = seen["findings"].as_array().expect("findings");
    assert!(
        findings.iter().any(|finding| finding["code"] == "append_only"),
        "{findings:?}"
    );
}

/// An old finding beside a new state would mislead.
#[tokio::test]
async fn masters_are_examined_when_one_of_them_changes() {
    let servers = three(ARGS).await;
    let console = console(&servers, &[]).await;
    let mut viewer = console.viewer("").await;
    let seen = viewer.until(|seen| seen["findings"].is_array()).await;
    assert!(
        seen["examined_age_ms"].as_u64().is_some_and(|age| age < 5_000),
        "{seen:#}"
    );
    servers[1].kill().await;
    let begun = Instant::now();
    let is_found = |seen: &Value| {
        let findings = seen["findings"].as_array().into_iter().flatten();
        findings
            .into_iter()
            .any(|finding| finding["code"] == "unreachable")
    };
    viewer.until(is_found).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Old numbers would look like the present.
#[tokio::test]
async fn without_a_majority_no_number_is_shown_as_present() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let _guard = held_everywhere(&masters.red_lock("a")).await;
    let console = console(&servers, &[]).await;
    let mut viewer = console.viewer("").await;
    viewer
        .until(|seen| {
            seen["curves"]["held"]
                .as_array()
                .is_some_and(|held| held.contains(&1.into()))
        })
        .await;
    servers[0].kill().await;
    servers[1].kill().await;
    let seen = viewer.until(|seen| seen["error"].is_string()).await;
    assert_eq!(seen["total"], Value::Null, "{seen:#}");
    for curve in ["held", "waiting", "grants"] {
        let points = seen["curves"][curve].as_array().expect("points");
        assert_eq!(points.last(), Some(&Value::Null), "{curve}: {seen:#}");
    }
    // A master that lists its locks grants nothing.
    let error = seen["error"].as_str().expect("text");
    let answered = format!("{}: answered", label(&servers[2]));
    assert!(error.contains(&answered) && !error.contains("granted"), "{error}");
}

#[tokio::test]
async fn locks_come_in_the_order_that_is_asked_for() {
    let servers = three(ARGS).await;
    let (masters, other) = (connect(urls(&servers)).await, connect(urls(&servers)).await);
    let mut guards = Vec::new();
    for name in ["b", "a", "c"] {
        guards.push(held_everywhere(&masters.red_lock(name)).await);
    }
    let waiting = tokio::spawn(async move { other.red_lock("c").lock().await.map(drop) });
    let console = console(&servers, &[]).await;
    let mut viewer = console.viewer("").await;
    viewer.until(|seen| seen["locks"][0]["waiting"] == 1).await;
    for (order, names) in [
        ("waiting", ["c", "a", "b"]),
        ("name", ["a", "b", "c"]),
        ("age", ["b", "a", "c"]),
    ] {
        let seen = console.viewer(&format!("order={order}")).await.snapshot().await;
        let seen: Vec<&str> = (0..3)
            .filter_map(|at| seen["locks"][at]["name"].as_str())
            .collect();
        assert_eq!(seen, names, "{order}");
    }
    drop(guards);
    waiting.await.expect("no panic").expect("granted");
}

#[tokio::test]
async fn other_sites_get_nothing() {
    let servers = three(ARGS).await;
    let console = console(&servers, &["--allow-force", "--host", "locks.example"]).await;
    let url = console.url();
    for host in ["evil.example", "localhost.evil.example:7411"] {
        for path in ["/", "/events", "/page.js", "/style.css", "/nothing"] {
            let answer = console.get(path, &[("Host", host)]).await;
            assert_eq!(answer.status, 421, "{host} {path}");
        }
    }
    assert_eq!(console.get("/", &[("Host", "locks.example")]).await.status, 200);
    for origin in [
        "http://evil.example",
        "null",
        &url.replace("http", "ftp").replace("127", "128"),
    ] {
        let headers = [("Origin", origin)];
        assert_eq!(console.get("/events", &headers).await.status, 403, "{origin}");
        let body = r#"{"name":"a","hold":"b"}"#;
        assert_eq!(
            console.ask("POST", "/force", &headers, body).await.status,
            403,
            "{origin}"
        );
    }
    assert_eq!(
        console.ask("POST", "/force", &[], "{}").await.status,
        403,
        "no origin"
    );
    let own = [("Origin", url.as_str())];
    let too_long = format!(r#"{{"name":"a","hold":"b","reason":"{}"}}"#, "r".repeat(500));
    for body in ["no JSON", r#"{"name":"","hold":"b"}"#, &too_long] {
        let answer = console.ask("POST", "/force", &own, body).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
    }
    // Another service of this host is of the same site.
    for headers in [
        [("Origin", "http://locks.example:9999"), ("Host", "locks.example")],
        [("Origin", url.as_str()), ("Sec-Fetch-Site", "same-site")],
    ] {
        let answer = console.ask("POST", "/force", &headers, "no JSON").await;
        assert_eq!(answer.status, 403, "{headers:?}");
    }
    for headers in [
        [
            ("Origin", "https://locks.example"),
            ("Sec-Fetch-Site", "same-origin"),
        ],
        [("Origin", url.as_str()), ("Sec-Fetch-Site", "none")],
    ] {
        let answer = console.ask("POST", "/force", &headers, "no JSON").await;
        assert_eq!(answer.status, 400, "{headers:?}");
    }
    let image = [("Sec-Fetch-Site", "cross-site")];
    assert_eq!(
        console.get("/events", &image).await.status,
        403,
        "an image of another site"
    );
    assert_eq!(console.get("/", &image).await.status, 200, "a link");
    let page = console.get("/", &own).await;
    for header in [
        "content-security-policy: default-src 'none'",
        "x-frame-options: DENY",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        // With `no-referrer`, a browser sends the form of the token with `Origin: null`, which is refused.
        "referrer-policy: same-origin",
    ] {
        assert!(page.text.contains(header), "{}", page.text);
    }
}

#[tokio::test]
async fn a_token_opens_the_page() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let file = witness.file("token");
    std::fs::write(&file, "correct-horse-battery\n").expect("a file");
    let console = console(&servers, &["--token-file", &file, "--host", "locks.example"]).await;
    for path in ["/", "/events", "/page.js", "/force"] {
        let answer = console.get(path, &[]).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.text.contains("name=\"token\""), "{path}: {}", answer.text);
    }
    let url = console.url();
    let own = [("Origin", url.as_str())];
    assert_eq!(
        console
            .ask("POST", "/token", &own, "token=wrong-horse-battery-")
            .await
            .status,
        401
    );
    assert_eq!(
        console
            .ask("POST", "/token", &[], "token=correct-horse-battery")
            .await
            .status,
        403
    );
    let answer = console
        .ask("POST", "/token", &own, "token=correct-horse-battery")
        .await;
    assert_eq!(answer.status, 303);
    assert!(
        answer.text.contains("HttpOnly; SameSite=Lax; Path=/\r\n"),
        "{}",
        answer.text
    );
    // Behind a proxy with TLS the browser keeps it to TLS.
    let by_tls = [("Host", "locks.example"), ("Origin", "https://locks.example")];
    let answer = console
        .ask("POST", "/token", &by_tls, "token=correct-horse-battery")
        .await;
    assert!(answer.text.contains("Path=/; Secure\r\n"), "{}", answer.text);
    // Browsers send cookies to every port of a host, so the token of another console may be beside this one.
    let cookie = format!(
        "multilock_console_1=another-horse-battery; multilock_console_{}=correct-horse-battery",
        console.address.port()
    );
    assert_eq!(console.get("/", &[("Cookie", &cookie)]).await.status, 200);
    assert_eq!(
        console
            .get("/", &[("Authorization", "Bearer correct-horse-battery")])
            .await
            .status,
        200
    );
    let journal = console.journal(" gave a wrong token").await;
    assert_eq!(journal.matches(" gave a wrong token").count(), 1, "{journal}");
}

/// Otherwise whoever reaches the port could use up its connections.
#[tokio::test]
async fn requests_that_do_not_go_on_are_given_up() {
    let servers = three(ARGS).await;
    let console = console(&servers, &[]).await;
    let url = console.url();
    let host = format!("Host: {}", console.address);
    let whole_head =
        format!("POST /force HTTP/1.1\r\n{host}\r\nOrigin: {url}\r\nContent-Length: 100\r\n\r\n");
    let half = async |request: &str| {
        let mut stream = TcpStream::connect(console.address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        timeout(WITHIN, stream.read_to_string(&mut answer))
            .await
            .expect("it is closed")
            .expect("text");
        answer
    };
    let mut viewer = console.viewer("").await;
    let (nothing, head, body) = tokio::join!(half(""), half("GET / HTTP/1.1\r\nHost"), half(&whole_head));
    assert_eq!(nothing, "");
    assert!(!head.contains(" 200 "), "{head}");
    assert!(body.starts_with("HTTP/1.1 408 "), "{body}");
    // Somebody who looks has sent a whole request, and sees what is there now.
    let now = console.viewer("").await.snapshot().await;
    let now = now["at"].as_str();
    viewer.until(|seen| seen["at"].as_str() >= now).await;
}

#[tokio::test]
async fn addresses_that_others_reach_need_a_token() {
    let servers = three(ARGS).await;
    let ask = async |args: &[&str]| -> Said {
        let mut command = multilock(&urls(&servers));
        said(
            command
                .arg("console")
                .args(args)
                .stdout(Stdio::piped())
                .spawn()
                .expect("the command"),
        )
        .await
    };
    let refused = ask(&["--listen", "0.0.0.0:0"]).await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.stderr.contains("--token-file"), "{refused:?}");
    let refused = ask(&["--token-file", "/nowhere"]).await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    let refused = ask(&["--listen", "192.0.2.1:1", "--token-file", "/dev/null"]).await;
    assert_eq!(refused.code, Some(78), "an empty token: {refused:?}");
}

/// Number of scans that a master has done: each look does a fixed number.
async fn scans(server: &Server) -> u64 {
    let all = server.command(&["INFO", "commandstats"]).await;
    let all: String = redis::from_redis_value(all).expect("text");
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
    let number = line.and_then(|line| line.split(',').next());
    number.map_or(0, |number| number.parse().expect("a number"))
}

/// The masters are asked once a second at most, and not at all without a viewer.
#[tokio::test]
async fn many_viewers_ask_no_more_than_one() {
    let servers = three(ARGS).await;
    let console = console(&servers, &[]).await;
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(scans(&servers[0]).await, 0, "nobody has looked");
    console.viewer("").await.until(|seen| seen["total"] == 0).await;
    let each = scans(&servers[0]).await;
    let mut viewers = Vec::new();
    for _ in 0..100 {
        viewers.push(console.viewer("").await);
    }
    let (begun, before) = (Instant::now(), scans(&servers[0]).await);
    for _ in 0..3 {
        for viewer in &mut viewers {
            viewer.snapshot().await;
        }
    }
    // In this order: a look that comes between the two is in the time.
    let asked = scans(&servers[0]).await - before;
    let took = begun.elapsed();
    let most = each * (took.as_secs() + 2);
    assert!(asked <= most, "{asked} scans in {took:?}, {each} a look");
    drop(viewers);
    until("nobody is asked any more", async || {
        let before = scans(&servers[0]).await;
        sleep(Duration::from_millis(2500)).await;
        scans(&servers[0]).await == before
    })
    .await;
}

#[tokio::test]
async fn viewers_beyond_the_most_are_refused_until_others_go() {
    let servers = three(ARGS).await;
    let console = console(&servers, &[]).await;
    let mut viewers = Vec::new();
    for _ in 0..200 {
        let mut viewer = console.viewer("").await;
        viewer.snapshot().await;
        viewers.push(viewer);
    }
    let refused = console.get("/events", &[]).await;
    assert_eq!(refused.status, 503);
    assert!(refused.text.contains("too many viewers"), "{}", refused.text);
    viewers.truncate(199);
    until("there is room", async || {
        let stream = console.send("GET", "/events", &[], "").await;
        let mut lines = BufReader::new(stream).lines();
        let line = timeout(WITHIN, lines.next_line()).await.expect("in time");
        line.expect("text").is_some_and(|line| line.contains("200"))
    })
    .await;
}

/// The status of the masters is shown each second, although the locks take longer to read.
#[tokio::test]
async fn a_long_list_does_not_hold_up_the_status() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let mut guards = Vec::new();
    for batch in 0..60 {
        let names: Vec<String> = (0..60).map(|name| format!("{batch}.{name}")).collect();
        guards.push(held_everywhere(&masters.red_lock(names)).await);
    }
    let console = console(&servers, &[]).await;
    let mut viewer = console.viewer("").await;
    viewer.until(|seen| seen["total"] == 3600).await;
    // Each batch of names waits for this master until its deadline.
    servers[1].freeze().await;
    let seen = viewer
        .until(|seen| seen["masters"][1]["state"] == "silent" && seen["locks_age_ms"].as_u64() > Some(1200))
        .await;
    servers[1].thaw().await;
    assert_eq!(seen["total"], 3600, "the list before stays");
}

#[tokio::test]
async fn a_lock_is_taken_away_with_the_flag_and_not_without() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let (looking, forcing) = (
        console(&servers, &[]).await,
        console(&servers, &["--allow-force"]).await,
    );
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let seen = forcing.viewer("").await.until(|seen| seen["total"] == 1).await;
    let hold = seen["locks"][0]["holds"][0]["hold"]
        .as_str()
        .expect("a hold")
        .to_owned();
    let body = format!(r#"{{"name":"a","hold":"{hold}"}}"#);
    let url = looking.url();
    let refused = looking.ask("POST", "/force", &[("Origin", &url)], &body).await;
    assert_eq!(refused.status, 403);
    assert!(is_held(&masters).await);
    let url = forcing.url();
    let other = body.replace(&hold, "other");
    let nothing = forcing.ask("POST", "/force", &[("Origin", &url)], &other).await;
    assert!(nothing.text.contains(r#"{"former":[]}"#), "{}", nothing.text);
    assert!(is_held(&masters).await);
    let done = forcing.ask("POST", "/force", &[("Origin", &url)], &body).await;
    assert_eq!(done.status, 200);
    assert!(done.text.contains(&guard.holder().to_string()), "{}", done.text);
    assert!(!is_held(&masters).await);
    // A name with a line of its own, and a reason.
    let other = held_everywhere(&masters.red_lock("b\nc")).await;
    let hold = other.holder().redacted_owner().to_string().replace('…', "");
    let body = format!(r#"{{"name":"b\nc","hold":"{hold}","reason":"stuck, #1234"}}"#);
    let done = forcing.ask("POST", "/force", &[("Origin", &url)], &body).await;
    assert_eq!(done.status, 200);
    let seen = masters.red_lock("b\nc").inspect().await.expect("they tell");
    let force = seen[0].last_force.as_ref().expect("a force");
    assert_eq!(force.reason.as_deref(), Some("stuck, #1234"));
    let holder = guard.holder();
    let taken = format!(r#"took b\nc away from {holder}, reason: "stuck, #1234""#);
    let journal = forcing.journal(&taken).await;
    assert_eq!(journal.matches(" took ").count(), 2, "{journal}");
    let taken = format!("took a away from {holder}, reason: \"\"\n");
    assert!(journal.contains(&taken), "{journal}");
}

/// It has a field for each, and that of the writer is shown.
#[tokio::test]
async fn a_writer_of_redissons_that_reads_as_well_is_taken_away_at_once() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let console = console(&servers, &["--allow-force"]).await;
    for server in &servers {
        let fields = ["mode", "write", "7d1e2c3b-0:1:write", "1", "7d1e2c3b-0:1", "1"];
        server.command(&[&["HSET", "a"], &fields[..]].concat()).await;
    }
    let seen = console.viewer("").await.until(|seen| seen["total"] == 1).await;
    let hold = &seen["locks"][0]["holds"][0]["hold"];
    assert_eq!(hold, "7d1e2c3b:1:write");
    let body = format!(r#"{{"name":"a","hold":{hold}}}"#);
    let done = console
        .ask("POST", "/force", &[("Origin", &console.url())], &body)
        .await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert!(!is_held(&masters).await);
    let seen = masters.red_lock("a").inspect().await.expect("they tell");
    let is_free = |(_, state): &(_, NodeState)| matches!(state, NodeState::Free);
    assert!(seen[0].nodes.iter().all(is_free), "{seen:?}");
}

async fn is_held(masters: &multilock::Masters) -> bool {
    let seen = masters.red_lock("a").inspect().await.expect("they tell");
    seen[0].agreed.is_some()
}
