//! Guides to read before and during the use of the crate. Each can be read by itself.
//!
//! | to … | read |
//! |---|---|
//! | decide whether it is safe enough for you | [`guarantees`] |
//! | see a lock's life in one drawing | [`how_it_works`] |
//! | set up the masters | [`servers`] |
//! | find the verb for a task | [`recipes`] |
//! | test a service that takes locks | [`testing`] |
//! | run it: status, metrics, alerts, logs | [`operations`] |
//! | choose a provider, or understand a refusal | [`faq`] |
//! | know what it costs, beside other crates | [`performance`] |
//! | come from Redisson, or lock the same names | [`redisson`] |
//! | pin a version, or read what an update may change | [`versions`] |
//! | look up a word | [`glossary`] |
//! | change the crate itself | [`architecture`] |

#[doc = include!("links.in")]
#[doc = include_str!("../docs/architecture.md")]
pub mod architecture {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/faq.md")]
pub mod faq {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/glossary.md")]
pub mod glossary {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/how-it-works.md")]
pub mod how_it_works {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/operations.md")]
pub mod operations {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/performance/README.md")]
pub mod performance {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/recipes.md")]
pub mod recipes {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/redisson.md")]
pub mod redisson {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/servers.md")]
pub mod servers {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/testing.md")]
pub mod testing {}
#[doc = include!("links.in")]
#[doc = include_str!("../docs/versions.md")]
pub mod versions {}
