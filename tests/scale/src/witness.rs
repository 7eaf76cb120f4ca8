//! Whether two valid holds of one name meet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use multilock::MultiLockGuard;

/// Present holds, by the number of their name.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    inside: Mutex<HashMap<u32, Weak<MultiLockGuard>>>,
    meetings: Mutex<u64>,
}

impl Witness {
    /// Notes a hold. It ends with `guard`, or with its validity.
    pub(crate) fn enter(&self, name: u32, guard: &Arc<MultiLockGuard>) {
        let mut inside = self.inside.lock().expect("no panic");
        let before = inside
            .insert(name, Arc::downgrade(guard))
            .and_then(|before| before.upgrade());
        if before.is_some_and(|before| before.is_valid()) && guard.is_valid() {
            *self.meetings.lock().expect("no panic") += 1;
        }
    }

    /// Notes the end of a hold, before it is released.
    pub(crate) fn leave(&self, name: u32, guard: &Arc<MultiLockGuard>) {
        let mut inside = self.inside.lock().expect("no panic");
        if inside
            .get(&name)
            .is_some_and(|inside| inside.ptr_eq(&Arc::downgrade(guard)))
        {
            inside.remove(&name);
        }
    }

    /// Times that two valid holds of one name met.
    pub(crate) fn meetings(&self) -> u64 {
        *self.meetings.lock().expect("no panic")
    }
}

#[cfg(test)]
mod tests {
    use multilock::sim::{Client, Cluster};
    use multilock::{Masters, Quarantine};

    use super::*;

    /// Valid holds of one name, of masters that know nothing of each other.
    #[tokio::test(start_paused = true)]
    async fn valid_holds_of_one_name_meet() {
        let witness = Witness::default();
        let mut held = Vec::new();
        for _ in 0..2 {
            let builder = Masters::builder().quarantine(Quarantine::Off);
            let masters = Cluster::new(3).connect_as(&Client::new(), builder).await;
            let guard = masters.expect("connects").red_lock("a").try_lock().await;
            let guard = Arc::new(guard.expect("free"));
            witness.enter(7, &guard);
            witness.enter(8 + u32::try_from(held.len()).expect("few"), &guard);
            held.push(guard);
        }
        assert_eq!(witness.meetings(), 1);
        witness.leave(7, &held[1]);
        witness.enter(7, &held[0]);
        assert_eq!(witness.meetings(), 1, "the other had left");
    }
}
