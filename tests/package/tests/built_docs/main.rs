//! The docs as `make docs` has built them. Every link leads somewhere, and items behind a feature say so. The crates
//! with types in public signatures are the crates that `docs/versions.md` names.

mod pages;
mod signatures;
