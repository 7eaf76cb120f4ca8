//! This crate.

use anyhow::Result;
use multilock::{Masters, MastersBuilder, MultiLockGuard, Quarantine};

use super::Settings;

#[derive(Clone)]
pub struct Ours {
    masters: Masters,
    fenced: bool,
}

/// The masters of a bench have just been started and forget nothing.
pub fn masters(urls: &[String], settings: Settings) -> MastersBuilder {
    Masters::builder()
        .nodes(urls)
        .lease(settings.lease)
        .node_timeout(settings.node_timeout)
        .quarantine(Quarantine::Off)
}

impl Ours {
    pub async fn connect(urls: &[String], settings: Settings, fenced: bool) -> Result<Self> {
        let masters = masters(urls, settings).connect().await?;
        Ok(Self { masters, fenced })
    }

    pub async fn acquire(&self, name: &str) -> Result<MultiLockGuard> {
        Ok(self.masters.red_lock(name).fenced(self.fenced).lock().await?)
    }
}
