//! The docs as `make docs` has built them: every link leads somewhere, items behind a feature say so, and the crates whose types
//! stand in public signatures are those that `docs/versions.md` names.

mod pages;
mod signatures;
