//! A Prometheus of this run's own.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::dashboard::Target;
use crate::picture::Curve;

/// On a busy machine, too.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Another program may take the port before Prometheus does.
const ATTEMPTS: u32 = 10;
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
/// The longest answer in bytes: a few hundred curves.
const ANSWER: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Prometheus {
    child: Child,
    address: SocketAddr,
    begun: f64,
    // Removed when the server has ended.
    data: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Fails only if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Scrapes `target` every second, as each of these instances, and judges as often by the rules in a file.
    pub(crate) async fn start(target: SocketAddr, instances: &[String], rules: &Path) -> Result<Self> {
        let (begun, mut attempt) = (Instant::now(), 1);
        loop {
            match Self::start_once(target, instances, rules).await {
                Err(_) if attempt < ATTEMPTS && begun.elapsed() < READY_WITHIN => attempt += 1,
                started => return started,
            }
        }
    }

    async fn start_once(target: SocketAddr, instances: &[String], rules: &Path) -> Result<Self> {
        let data = TempDir::with_prefix("multilock-prometheus-")?;
        let config = data.path().join("prometheus.yml");
        let rules = rules.display();
        let targets = instances
            .iter()
            .map(|instance| format!("{{targets: ['{target}'], labels: {{instance: '{instance}'}}}}"));
        let targets = targets.collect::<Vec<_>>().join(", ");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{rules}']\n\
             scrape_configs:\n  - {{job_name: service, static_configs: [{targets}]}}\n"
        );
        fs::write(&config, text)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = fs::File::create(data.path().join("log"))?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                data.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("starting prometheus; on Debian: apt-get install prometheus")?;
        let mut prometheus = Self {
            child,
            address,
            begun: now(),
            data,
        };
        let end = Instant::now() + READY_WITHIN;
        while prometheus
            .get("/api/v1/status/runtimeinfo".to_owned())
            .await
            .is_err()
        {
            let ended = prometheus.child.try_wait()?;
            if ended.is_some() || Instant::now() > end {
                let log = fs::read_to_string(prometheus.data.path().join("log"))?;
                bail!("prometheus was not ready within {READY_WITHIN:?}, ended: {ended:?}: {log}");
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(prometheus)
    }

    /// Seconds since 1970.
    pub(crate) fn begun(&self) -> f64 {
        self.begun
    }

    /// One curve for each series of the answer, in seconds since the beginning.
    pub(crate) async fn range(&self, target: &Target) -> Result<Vec<Curve>> {
        let path = format!(
            "/api/v1/query_range?query={}&start={}&end={}&step=1",
            encoded(&target.query),
            self.begun,
            now()
        );
        let answer = self.get(path).await.with_context(|| target.query.clone())?;
        let series = answer["data"]["result"]
            .as_array()
            .context("an answer has a result")?;
        Ok(series
            .iter()
            .map(|series| self.curve(series, &target.legend))
            .collect())
    }

    fn curve(&self, series: &Value, legend: &str) -> Curve {
        let labels = series["metric"].as_object().into_iter().flatten();
        let label = labels.fold(legend.to_owned(), |legend, (name, value)| {
            legend.replace(&format!("{{{{{name}}}}}"), value.as_str().unwrap_or_default())
        });
        let point = |point: &Value| {
            let value: f64 = point[1].as_str()?.parse().ok()?;
            value
                .is_finite()
                .then_some((point[0].as_f64()? - self.begun, value))
        };
        let points = series["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(point);
        Curve {
            label,
            points: points.collect(),
        }
    }

    /// The names of the alerts that were firing at any time.
    pub(crate) async fn fired(&self) -> Result<Vec<String>> {
        let target = Target {
            query: "ALERTS{alertstate=\"firing\"}".to_owned(),
            legend: "{{alertname}}".to_owned(),
        };
        let mut names: Vec<_> = self
            .range(&target)
            .await?
            .into_iter()
            .map(|curve| curve.label)
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    async fn get(&self, path: String) -> Result<Value> {
        let url = format!("http://{}{path}", self.address);
        let get = move || -> Result<Value> {
            let request = ureq::get(&url)
                .config()
                .timeout_global(Some(ANSWERS_WITHIN))
                .build();
            // Whole, as a reader is slow in a build for tests.
            let answer = request
                .call()?
                .body_mut()
                .with_config()
                .limit(ANSWER)
                .read_to_vec()?;
            Ok(serde_json::from_slice(&answer)?)
        };
        spawn_blocking(get).await?
    }
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Percent-encoded but for letters and digits.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}
