//! What goes to the registry and to docs.rs: the files of the packages, the links of the documents and alerts, the features,
//! and what the published crates depend on. And the files of `contrib` that operators copy.

mod alerts;
mod contrib;
mod dependencies;
mod documents;
mod features;
mod files;
mod links;
mod plain_words;
mod tree;
