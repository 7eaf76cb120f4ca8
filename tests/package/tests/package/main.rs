//! Everything that goes to the registry and to docs.rs: the files of the packages, their features and dependencies,
//! and the links of documents and alerts. Also the files of `contrib` that operators copy.

mod alerts;
mod contrib;
mod dependencies;
mod documents;
mod features;
mod files;
mod links;
mod plain_words;
mod tree;
