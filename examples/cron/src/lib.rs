//! A schedule that several hosts have, each by a scheduler of its own: that of `tokio-cron-scheduler`, or of `apalis`. Each
//! period is done by one of them, by `MultiLock::once`.

mod with_apalis;
mod with_tokio_cron_scheduler;

use std::future::Future;
use std::time::Duration;

use anyhow::Result;
use multilock::{Masters, Once};

pub use with_apalis::work_every_second;
pub use with_tokio_cron_scheduler::every_second;

/// Longer than the hosts' clocks are apart, and than a host may be late.
const KEEP: Duration = Duration::from_secs(3600);

/// Does the job of a second, unless another host has done it.
async fn report<F>(masters: &Masters, second: u64, job: impl Fn(u64) -> F)
where
    F: Future<Output = Result<()>>,
{
    // The name consists of the job and its period.
    let once = masters.red_lock(format!("report:{second}")).once(KEEP);
    match once.run(async move |_guard| job(second).await).await {
        Ok(Once::Ran(())) => println!("second {second}: done"),
        Ok(Once::Done { label, .. }) => {
            println!(
                "second {second}: done by {}",
                label.as_deref().unwrap_or("another host")
            );
        }
        Ok(_) => println!("second {second}: done, and it may be done again"),
        Err(error) => eprintln!("second {second}: {error}"),
    }
}
