//! The page of `multilock console` in a headless Chromium. `PICTURES=1` writes the pictures of docs/operations.md.
#![cfg(unix)]

use std::env;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fantoccini::{Client, ClientBuilder, Locator};
use multilock::Policy;
use multilock_test_support::{Server, connect, held_everywhere, start, until};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

const WITHIN: Duration = Duration::from_secs(60);

/// First line of a process in which this text stands; none if the process ends before.
async fn line_of(process: &mut Child, text: &str) -> Option<String> {
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let reading = async {
        loop {
            let line = lines.next_line().await.expect("text");
            if line.as_ref().is_none_or(|line| line.contains(text)) {
                break line;
            }
        }
    };
    let line = timeout(WITHIN, reading).await.expect("in time");
    // Nobody else reads it, and it must not stop at a full pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    line
}

struct Browser {
    client: Client,
    driver: Child,
}

/// The browser is a child of its driver, in the same group, and would outlive a test that fails.
impl Drop for Browser {
    fn drop(&mut self) {
        let leader = self.driver.id().and_then(|id| i32::try_from(id).ok());
        if let Some(leader) = leader.and_then(Pid::from_raw) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Browser {
    async fn start(dark: bool, (width, height): (u32, u32)) -> Self {
        let (driver, port) = start_driver().await;
        let scheme = i32::from(!dark);
        let options = json!({"args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            format!("--window-size={width},{height}"),
            format!("--blink-settings=preferredColorScheme={scheme}"),
        ]});
        let mut wanted = Map::new();
        wanted.insert(String::from("goog:chromeOptions"), options);
        wanted.insert(String::from("goog:loggingPrefs"), json!({"browser": "ALL"}));
        let client = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(wanted)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("a browser");
        Self { client, driver }
    }

    /// Text of all elements that a selector finds.
    async fn texts(&self, selector: &str) -> Vec<String> {
        let script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)";
        let texts = self
            .client
            .execute(script, vec![selector.into()])
            .await
            .expect("a script");
        serde_json::from_value(texts).expect("texts")
    }

    async fn until(&self, what: &str, selector: &str, is_so: impl Fn(&[String]) -> bool) {
        until(what, async || is_so(&self.texts(selector).await)).await;
    }

    async fn click(&self, selector: &str) {
        let element = self
            .client
            .find(Locator::Css(selector))
            .await
            .expect("it is there");
        element.click().await.expect("it can be clicked");
    }

    async fn picture(&self, name: &str) {
        let picture = self.client.screenshot().await.expect("a picture");
        if env::var_os("PICTURES").is_some() {
            let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
            std::fs::write(format!("{docs}/{name}.png"), picture).expect("docs can be written");
        }
    }
}

/// A driver and its port. It takes a free port of IPv6, ends if the same port of IPv4 is taken, and is then started
/// again.
async fn start_driver() -> (Child, String) {
    for _ in 0..10 {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .expect("chromedriver is missing: apt-get install chromium chromium-driver");
        if let Some(line) = line_of(&mut driver, "started successfully on port").await {
            let port = line.trim_end_matches('.').rsplit(' ').next().expect("a port");
            return (driver, port.to_owned());
        }
    }
    panic!("chromedriver ended ten times before it said its port");
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

async fn console(servers: &[Server], args: &[&str]) -> (Child, String) {
    let test = env::current_exe().expect("this program");
    let built = test.ancestors().nth(2).map(|dir| dir.join("multilock"));
    let program = built.filter(|program| Path::exists(program));
    let mut command = Command::new(program.expect("the command is missing: cargo build -p multilock-cli"));
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("MULTILOCK_")) {
        command.env_remove(name);
    }
    let mut process = command
        .env("MULTILOCK_NODES", urls(servers).join(","))
        .env("MULTILOCK_NODE_LABELS", "eu-1,eu-2,eu-3")
        // The masters of a test have just been started.
        .env("MULTILOCK_QUARANTINE", "off")
        .env("MULTILOCK_NODE_TIMEOUT", "5s")
        .env("MULTILOCK_CONNECT_TIMEOUT", "5s")
        .args(["console", "--listen", "127.0.0.1:0"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the command");
    let line = line_of(&mut process, "http://").await.expect("it goes on");
    let url = line.split(' ').next_back().expect("an address").to_owned();
    (process, url)
}

#[tokio::test]
async fn the_page_shows_locks_masters_and_takes_locks_away() {
    let servers = start(3, &["--appendonly", "yes", "--appendfsync", "always"]).await;
    let masters = connect(urls(&servers)).await;
    let (_looking, url) = console(&servers, &[]).await;
    let browser = Browser::start(false, (1200, 1100)).await;
    browser.client.goto(&url).await.expect("the page");
    browser
        .until("no lock is there", "#none", |texts| {
            texts == ["No lock is held or waited for."]
        })
        .await;
    browser
        .until("both policies are ready", "#ready span", |texts| {
            texts == ["RedLock ready", "MultiLock ready"]
        })
        .await;

    // A lock appears, with its holder and the first that waits.
    let markup = "<img src=x onerror=\"document.title='broken'\">";
    let evil = held_everywhere(&masters.red_lock(markup)).await;
    let ledger = masters
        .red_lock("ledger:2026-05")
        .about("closing the ledger of May");
    let holding = held_everywhere(&ledger).await;
    let invoices = held_everywhere(&masters.lock(["invoice:17", "invoice:18"], Policy::MultiLock)).await;
    let other = connect(urls(&servers)).await;
    let waiting = tokio::spawn(async move { other.red_lock("ledger:2026-05").lock().await.map(drop) });
    browser
        .until("four locks are there", "#locks tr", |texts| texts.len() == 4)
        .await;
    browser
        .until("somebody waits", "#longest li", |texts| {
            texts.len() == 1 && texts[0].contains("waits for ledger:2026-05")
        })
        .await;
    let names = browser.texts("#locks th").await;
    assert!(names.contains(&markup.to_owned()), "a name is text: {names:?}");
    assert_eq!(browser.client.title().await.expect("a title"), "multilock");
    assert!(browser.texts("#locks img").await.is_empty());
    browser
        .until(
            "the ledger's text is there",
            "#locks tr:first-child td small",
            |texts| texts.contains(&String::from("closing the ledger of May")),
        )
        .await;
    assert!(
        browser.texts("#locks button").await.is_empty(),
        "nothing can be taken away here"
    );
    browser
        .until("the masters are examined", "#findings li", |texts| {
            texts == ["Nothing is wrong."]
        })
        .await;
    browser
        .until("the findings have an age", "#examined", |texts| {
            texts.len() == 1 && texts[0].starts_with("examined ") && texts[0].ends_with(" s ago")
        })
        .await;
    browser.picture("console-light").await;

    // The search asks the console.
    let search = browser.client.find(Locator::Css("#text")).await.expect("a field");
    search.send_keys("INVOICE").await.expect("keys");
    browser
        .until("two are found", "#locks th", |texts| {
            texts == ["invoice:17", "invoice:18"]
        })
        .await;
    assert_eq!(browser.texts("#count").await, ["2 of 4"]);

    // A master goes and comes.
    servers[1].freeze().await;
    browser
        .until("a master is silent", "#masters li b", |texts| {
            texts == ["has a vote", "silent", "has a vote"]
        })
        .await;
    browser
        .until("MultiLock is not available", "#ready span", |texts| {
            texts == ["RedLock ready", "MultiLock not available"]
        })
        .await;
    servers[1].thaw().await;
    browser
        .until("it is back", "#masters li b", |texts| {
            texts.iter().all(|text| text == "has a vote")
        })
        .await;
    let errors = browser.texts("body > .error:not([hidden])").await;
    assert!(errors.is_empty(), "{errors:?}");
    browser.client.clone().close().await.expect("closed");

    take_away(&servers, "ledger:2026-05").await;
    let loss = timeout(WITHIN, holding.lost())
        .await
        .expect("the holder learns of it");
    let reason = loss.force().and_then(|force| force.reason.clone());
    assert_eq!(reason.as_deref(), Some("stuck, #1234"));
    timeout(WITHIN, waiting)
        .await
        .expect("in time")
        .expect("no panic")
        .expect("the next one has it");
    drop((evil, invoices));
}

/// With the flag a lock can be taken away; dark, on a phone.
async fn take_away(servers: &[Server], name: &str) {
    let (_forcing, url) = console(servers, &["--allow-force"]).await;
    let browser = Browser::start(true, (500, 1000)).await;
    browser.client.goto(&url).await.expect("the page");
    browser
        .until("four locks are there", "#locks tr", |texts| texts.len() == 4)
        .await;
    let dark = browser
        .client
        .execute("return getComputedStyle(document.body).backgroundColor", vec![])
        .await;
    assert_eq!(dark.expect("a color"), Value::from("rgb(20, 23, 27)"));
    let wide = "return document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(
        browser.client.execute(wide, vec![]).await.expect("a width"),
        Value::from(true)
    );
    sleep(Duration::from_secs(3)).await;
    browser.picture("console-dark").await;
    let row = format!("#locks tr[data-name='{name}']");
    browser.click(&format!("{row} button")).await;
    browser
        .until("it asks", "#force-name", |texts| texts == [name])
        .await;
    browser.click("#force-no").await;
    browser
        .until("the question is gone", "dialog[open]", <[String]>::is_empty)
        .await;
    browser.click(&format!("{row} button")).await;
    let reason = browser
        .client
        .find(Locator::Css("#force-reason"))
        .await
        .expect("a field");
    reason.send_keys("stuck, #1234").await.expect("keys");
    browser.click("#force-yes").await;
    // It closes when the console has answered; a page that is left before may not have asked.
    browser
        .until("it is taken away", "dialog[open]", <[String]>::is_empty)
        .await;
    browser.client.clone().close().await.expect("closed");
}

#[tokio::test]
async fn somebody_with_the_token_signs_in() {
    let servers = start(3, &["--appendonly", "no"]).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    std::fs::write(&file, "correct-horse-battery\n").expect("a file");
    let file = file.to_str().expect("text");
    let (_looking, url) = console(&servers, &["--token-file", file]).await;
    let browser = Browser::start(false, (1200, 1100)).await;
    browser.client.goto(&url).await.expect("the page");
    let field = browser.client.find(Locator::Css("input[name=token]")).await;
    let field = field.expect("a field");
    field
        .send_keys("correct-horse-battery\n")
        .await
        .expect("a text field");
    browser
        .until("the page is there", "#none", |texts| {
            texts == ["No lock is held or waited for."]
        })
        .await;
}

#[tokio::test]
async fn names_that_would_look_alike_are_told_apart() {
    let servers = start(3, &["--appendonly", "no"]).await;
    let masters = connect(urls(&servers)).await;
    let names = [
        "two  blanks",
        "two blanks",
        "zero\u{200b}width",
        "zerowidth",
        "turned\u{202e}name",
        "a\nline",
    ];
    let mut guards = Vec::new();
    for name in names {
        guards.push(held_everywhere(&masters.red_lock(name)).await);
    }
    let (_looking, url) = console(&servers, &[]).await;
    let browser = Browser::start(false, (1200, 1100)).await;
    browser.client.goto(&url).await.expect("the page");
    let mut shown = [
        "two  blanks",
        "two blanks",
        r"zero\u{200b}width",
        "zerowidth",
        r"turned\u{202e}name",
        r"a\u{a}line",
    ];
    shown.sort_unstable();
    browser
        .until("each name is shown as it is", "#locks th", |texts| {
            let mut texts = texts.to_vec();
            texts.sort_unstable();
            texts == shown
        })
        .await;
}
