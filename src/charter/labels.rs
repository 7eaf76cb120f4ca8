//! What the clients call themselves that are in the way.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::commands;
use super::look::Objections;
use super::master::Master;
use super::scan::step;
use crate::client_label;
use crate::error::{NodeError, Objection};

/// So many of a master are named; there may be more.
const NAMED: usize = 20;

/// The addresses of their connections are known by then: names are worth no more of a wait.
const WITHIN: Duration = Duration::from_secs(5);

/// On the masters where some are connected. Some of those named may have ended within the last minutes.
pub(super) async fn labels(masters: &[Master], against: &Objections) -> Vec<String> {
    let sees = |master: &&Master| {
        let is_client = |objection: &Objection| matches!(objection, Objection::Connected { .. });
        let mut here = against.iter().filter(|(node, _)| *node == master.label);
        here.any(|(_, objection)| is_client(objection))
    };
    let told = join_all(masters.iter().filter(sees).map(of)).await;
    let mut labels: Vec<String> = told.into_iter().flatten().collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// As many as one master has told until it fails or the time is over.
async fn of(master: &Master) -> Vec<String> {
    let (mut labels, until) = (Vec::new(), Instant::now() + WITHIN);
    let mut cursor = b"0".to_vec();
    while let Ok(next) = look_on(master, &cursor, &mut labels).await {
        if next == b"0" || labels.len() >= NAMED || Instant::now() > until {
            break;
        }
        cursor = next;
    }
    labels
}

/// One step. The next cursor.
async fn look_on(master: &Master, cursor: &[u8], labels: &mut Vec<String>) -> Result<Vec<u8>, NodeError> {
    let (next, mut keys) = step(master, &commands::next_labels(cursor)).await?;
    keys.truncate(NAMED.saturating_sub(labels.len()));
    let stand = keys
        .iter()
        .map(async |key| master.text_under(&String::from_utf8_lossy(key)).await);
    for label in join_all(stand).await {
        // It may have been taken back meanwhile.
        labels.extend(client_label::told(&label?).map(|label| label.to_string()));
    }
    Ok(next)
}
