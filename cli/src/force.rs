//! `multilock force-release`: takes names away from whoever holds them.

use multilock::{Inspection, Masters, Policy};

use crate::args::ForceArgs;
use crate::exit::{self, Failure};
use crate::inspect::print;
use crate::report::describe;
use crate::say::{Voice, confirmed};

pub(crate) async fn force_release(args: &ForceArgs, masters: &Masters, voice: Voice) -> Result<u8, Failure> {
    let lock = masters.lock(&*args.names, Policy::RedLock);
    let seen = lock.inspect().await?;
    if let Some(prefix) = &args.if_holder
        && let Some(other) = seen.iter().find(|name| !is_held_by(name, prefix))
    {
        let state = describe(other);
        return Err(Failure::new(exit::FREE, format_args!("{state}: not taken away")));
    }
    let told: Vec<String> = seen.iter().map(describe).collect();
    let question = "Take it away? Whoever holds it learns of it at the next renewal only.";
    if !args.yes && !confirmed(&told, question)? {
        return Err(Failure::new(exit::FREE, "nothing was taken away"));
    }
    let forced = lock.force_release().await?;
    let former: Vec<String> = forced.former.iter().map(ToString::to_string).collect();
    let names = args.names.join(", ");
    if former.is_empty() {
        print(&format!("{names}: nobody held it\n"))?;
    } else {
        print(&format!("{names}: taken away from {}\n", former.join(", ")))?;
    }
    for spared in &forced.spared {
        voice.warn(format_args!(
            "{} is a {} on {} and no lock: left as it is",
            spared.name, spared.kind, spared.node
        ));
    }
    Ok(if forced.spared.is_empty() { 0 } else { exit::FREE })
}

fn is_held_by(name: &Inspection, prefix: &str) -> bool {
    let mut holders = name.agreed.iter().chain(&name.readers).peekable();
    holders.peek().is_some() && holders.all(|holder| holder.to_string().starts_with(prefix))
}
