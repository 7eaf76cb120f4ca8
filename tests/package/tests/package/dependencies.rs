//! Dependencies of the published crates, checked against the lists of `deny.toml`: licences, versions side by side,
//! sources. None of them asks for a newer Rust. `make deny` also checks every platform, and the texts of the
//! licences.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::Package;
use spdx::{Expression, ParseMode};

use crate::tree::{PUBLISHED, cargo, metadata, package, text};

fn deny() -> toml::Table {
    text("deny.toml").parse().expect("a TOML")
}

/// All that a user builds of the published crates on this platform, with every feature.
fn built() -> Vec<&'static Package> {
    let [library, command] = PUBLISHED;
    let tree = [
        "tree",
        "--locked",
        "--all-features",
        "--edges=no-dev",
        "--prefix=none",
    ];
    let lines = cargo(&[&tree[..], &["--format={p}", "-p", library, "-p", command]].concat());
    let listed: BTreeSet<(&str, &str)> = lines
        .iter()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    assert!(listed.len() > 50, "hardly anything was read");
    let package = |(name, version): &(&str, &str)| {
        let mut packages = metadata().packages.iter();
        let named = packages.find(|it| it.name.as_str() == *name && it.version.to_string() == *version);
        named.unwrap_or_else(|| panic!("{name} {version} is in the tree alone"))
    };
    listed.iter().map(package).collect()
}

fn from_elsewhere() -> impl Iterator<Item = &'static Package> {
    built().into_iter().filter(|package| package.source.is_some())
}

#[test]
fn every_licence_is_an_allowed_one_and_each_allowed_one_is_needed() {
    let deny = deny();
    let allowed: Vec<&str> = deny["licenses"]["allow"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|licence| licence.as_str().expect("a name"))
        .collect();
    let mut refused = Vec::new();
    let mut needed: BTreeSet<&str> = BTreeSet::new();
    for package in from_elsewhere() {
        let stated = package.license.as_deref().unwrap_or("nothing");
        let expression = Expression::parse_mode(stated, ParseMode::LAX);
        let expression = expression.unwrap_or_else(|error| panic!("{}: {error}", package.name));
        let suffice = |without: Option<&str>| {
            expression.evaluate(|one| {
                let id = one.license.id().map(|id| id.name);
                id != without && one.addition.is_none() && id.is_some_and(|id| allowed.contains(&id))
            })
        };
        if !suffice(None) {
            refused.push((&package.name, stated));
        }
        needed.extend(allowed.iter().filter(|licence| !suffice(Some(licence))));
    }
    assert!(refused.is_empty(), "not allowed in deny.toml: {refused:#?}");
    let idle: Vec<_> = allowed.iter().filter(|one| !needed.contains(*one)).collect();
    assert!(idle.is_empty(), "deny.toml allows what nothing needs: {idle:?}");
}

#[test]
fn two_versions_of_a_crate_have_a_reason() {
    let deny = deny();
    let skipped = deny["bans"]["skip"].as_array().expect("a list");
    let skipped: BTreeSet<&str> = skipped
        .iter()
        .map(|skip| {
            assert!(skip["reason"].as_str().is_some_and(|reason| reason.len() > 10));
            skip["crate"].as_str().expect("a name")
        })
        .collect();
    let mut versions: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
    for package in from_elsewhere() {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    // The newest one stays.
    let older = several.flat_map(|(name, versions)| {
        let older = versions.len() - 1;
        let older = versions.into_iter().take(older);
        older.map(move |version| match version.major {
            0 => format!("{name}@0.{}", version.minor),
            major => format!("{name}@{major}"),
        })
    });
    let unexplained: Vec<_> = older.filter(|one| !skipped.contains(one.as_str())).collect();
    assert!(
        unexplained.is_empty(),
        "deny.toml has no reason for {unexplained:?}"
    );
}

#[test]
fn all_of_it_is_from_the_one_registry() {
    let deny = deny();
    let registry = deny["sources"]["allow-registry"][0].as_str().expect("a URL");
    let strange: Vec<_> = from_elsewhere()
        .filter(|package| {
            let source = package.source.as_ref().expect("a source");
            source.repr != format!("registry+{registry}")
        })
        .collect();
    assert!(strange.is_empty(), "{strange:#?}");
    // A package without a source is of the workspace, and is published itself.
    let local = built().into_iter().filter(|package| package.source.is_none());
    let local: Vec<&str> = local.map(|package| package.name.as_str()).collect();
    assert_eq!(local, PUBLISHED);
}

#[test]
fn none_of_it_asks_for_a_newer_rust() {
    let ours = package("multilock")
        .rust_version
        .as_ref()
        .expect("a rust-version");
    let newer: Vec<_> = from_elsewhere()
        .filter(|package| package.rust_version.as_ref().is_some_and(|rust| rust > ours))
        .map(|package| (&package.name, &package.version, &package.rust_version))
        .collect();
    assert!(newer.is_empty(), "newer than Rust {ours}: {newer:#?}");
}

/// An update of Cargo.lock keeps to the Rust that is declared, and clippy knows it.
#[test]
fn the_tools_know_the_oldest_rust() {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("a TOML");
    let workspace = &manifest["workspace"];
    assert_eq!(workspace["resolver"].as_str(), Some("3"));
    let lints = &workspace["lints"]["clippy"];
    assert_eq!(lints["incompatible_msrv"].as_str(), Some("deny"));
}
