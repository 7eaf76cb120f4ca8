//! `multilock forget-done`: has a job of `once` done again.

use std::time::Duration;

use multilock::{Masters, Policy};

use crate::args::ForgetArgs;
use crate::exit::{self, Failure, unanswered};
use crate::inspect::print;
use crate::say::confirmed;

pub(crate) async fn forget_done(args: &ForgetArgs, masters: &Masters) -> Result<u8, Failure> {
    let question = "Forget that it is done? The next process that comes does it again.";
    if !args.yes && !confirmed(&args.names, question)? {
        return Err(Failure::new(exit::FREE, "nothing was forgotten"));
    }
    for name in args.names.iter() {
        // Any time will do: the mark is forgotten, not asked for.
        let job = masters.red_lock(name.as_str()).once(Duration::from_secs(1));
        let forgotten = job.forget().await;
        forgotten.map_err(|error| {
            let failure = unanswered(error, masters, Policy::MultiLock);
            Failure::new(
                failure.code,
                format!("{name}: not forgotten on all masters: {}", failure.message),
            )
        })?;
        print(&format!("{name}: forgotten on all masters\n"))?;
    }
    Ok(0)
}
