//! The pipe, and its models, as it is no wider than this module.

#[path = "../../../../src/node/redis/pipeline.rs"]
mod pipeline;
#[path = "../../../../src/node/redis/resp.rs"]
mod resp;

pub mod calls;

mod socket {
    use tokio::io::{AsyncRead, AsyncWrite};

    pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

    impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}
}
