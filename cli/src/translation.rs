//! Messages of the library in the terms of the command: options in place of methods.

use std::fmt;

/// Address of the FAQ. Errors of the library link to it, too.
const FAQ: &str = "https://docs.rs/multilock/latest/multilock/guide/faq/index.html";

/// Phrases of the library and their counterparts in the command.
const PHRASES: [(&str, &str); 8] = [
    ("allow it in the builder", "give --allow-eviction"),
    ("max_hold bounds it", "--max-hold bounds it"),
    (
        "after the application has called CryptoProvider::install_default()",
        "with one",
    ),
    (", or a configuration by Node::tls", ""),
    ("the feature rustls", "the feature tls of this command"),
    (
        "the masters were closed, or the tokio runtime in which they were connected has ended",
        "the connections were closed",
    ),
    ("the runtime has ended before it was done", "it was interrupted"),
    (
        "the runtime that drives the connections, in which they were made, does not run",
        "this process was kept from hearing it",
    ),
];

/// Translates a message of the library, so that a user of the command can act on it.
pub(crate) fn translated(message: impl fmt::Display) -> String {
    let mut text = message.to_string();
    for (theirs, ours) in PHRASES {
        text = text.replace(theirs, ours);
    }
    text = replaced(&text, "MastersBuilder::", "", option);
    replaced(&text, "AtLeast(", ")", |quorum| quorum)
}

/// Replaces each `start`, the word after it and `end`.
fn replaced(text: &str, start: &str, end: &str, with: fn(&str) -> &str) -> String {
    let is_of_a_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut pieces = text.split(start);
    let mut done = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let length = piece.find(|letter| !is_of_a_word(letter)).unwrap_or(piece.len());
        let (word, rest) = piece.split_at(length);
        done.push_str(with(word));
        done.push_str(rest.strip_prefix(end).unwrap_or(rest));
    }
    done
}

/// Address of an entry of the FAQ.
pub(crate) fn page(entry: &str) -> String {
    format!("{FAQ}#{}", entry.to_lowercase().replace(' ', "-"))
}

/// Name that the command gives to an option of the library, or to a variable.
pub(crate) fn option(name: &str) -> &str {
    match name {
        "name" | "names" => "NAME",
        "node" | "nodes" => "--nodes",
        "nodes_file" => "--nodes-file",
        "namespace" => "--namespace",
        "node_timeout" => "--node-timeout",
        "connect_timeout" => "--connect-timeout",
        "lease" => "--lease",
        "for_tests" => "--for-tests",
        "drift_factor" => "--drift-factor",
        "quarantine" => "--quarantine",
        "allow_eviction" => "--allow-eviction",
        "allow_unknown_eviction" => "MULTILOCK_ALLOW_UNKNOWN_EVICTION=true",
        "allow_unknown_role" => "MULTILOCK_ALLOW_UNKNOWN_ROLE=true",
        "strict" => "--strict-memory",
        "policy" => "--policy",
        "wait" => "--wait",
        "max_hold" => "--max-hold",
        "at_least" => "--at-least",
        "min_validity" => "--min-validity",
        "about" => "--about",
        "force_reason" => "--reason",
        "pattern" => "PATTERN",
        "client_label" => "MULTILOCK_CLIENT_LABEL",
        "label" => "MULTILOCK_NODE_LABELS",
        other => other,
    }
}

#[cfg(test)]
mod tests;
