//! Two locks of one set that want the same name of the same server: the set would wait for itself.

use futures::future::select_all;

use crate::acquire::outcome::MemberError;
use crate::acquire::request::AcquireRequest;
use crate::error::InvalidInput;
use crate::protocol::kind;
use crate::time::until::until;

/// First lock that cannot be held together with an earlier one, as far as the servers of the masters are
/// known.
pub(crate) fn conflict(all: &[AcquireRequest]) -> Option<MemberError<InvalidInput>> {
    for (index, request) in all.iter().enumerate() {
        for (other, before) in all[..index].iter().enumerate() {
            let shared = request.names.shared_with(&before.names);
            if let Some(name) = shared.filter(|_| before.client.pool.shares_a_server(&request.client.pool)) {
                // A permit is queued under another name than the caller's.
                let name = request.permits.map_or(name, |_| kind::name_of_pool(name));
                let allowed = format!(
                    "names that lock {} of the set does not want on the same masters",
                    other + 1
                );
                return Some((index, InvalidInput::new("names", name, allowed)));
            }
        }
    }
    None
}

/// Resolves once two locks are known to be in conflict. The server of a master is known once the master is connected.
pub(super) async fn overlap(all: &[AcquireRequest]) -> MemberError<InvalidInput> {
    if !share_a_name(all) {
        return std::future::pending().await;
    }
    let found = all.iter().map(|request| {
        let found = until(&request.client.pool.recovered, || conflict(all));
        Box::pin(found)
    });
    select_all(found).await.0
}

/// Whether two locks want the same name by different clients. Two clients may have a server in common.
fn share_a_name(all: &[AcquireRequest]) -> bool {
    let share = |one: &AcquireRequest, other: &AcquireRequest| {
        one.client.pool.id != other.client.pool.id && one.names.shared_with(&other.names).is_some()
    };
    let mut numbered = all.iter().enumerate();
    numbered.any(|(index, request)| all[..index].iter().any(|before| share(before, request)))
}
