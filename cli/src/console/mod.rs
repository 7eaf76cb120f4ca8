//! `multilock console`: a web page that shows the masters and their locks.
//!
//! - `look.rs` asks the masters while somebody looks.
//! - `snapshot.rs` is the result of one look, as the page gets it.
//! - `access.rs` decides about each request: its host, its origin and its token.
//! - `connections.rs` accepts connections and bounds them; `server.rs` answers requests; `page/` is the page.

mod access;
mod connections;
mod look;
mod server;
mod snapshot;

use std::sync::Arc;

use tokio::net::TcpListener;

use self::access::Access;
use self::look::Looks;
use crate::args::{ConsoleArgs, MastersArgs};
use crate::connect::connect_for_a_look;
use crate::exit::Failure;
use crate::inspect::print;

pub(crate) async fn console(args: &ConsoleArgs, masters: &MastersArgs) -> Result<u8, Failure> {
    let access = Access::of(args)?;
    let builder = masters.builder()?;
    let masters = connect_for_a_look(masters).await?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let address = args.listen;
        Failure::usage(format_args!(
            "--listen: {address} is not allowed ({error}); allowed: an address of this host with a free port"
        ))
    })?;
    let address = listener.local_addr()?;
    let looks = Looks::begin(masters.clone(), builder);
    let router = server::router(masters, looks, Arc::new(access), args.allow_force);
    print(&format!("multilock: the console is at http://{address}/\n"))?;
    connections::serve(listener, router).await
}
