//! From page to page, as a reader goes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the repository").to_owned()
}

/// Folder in which `cargo doc` puts the docs.
pub(crate) fn built() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target).join("doc")
}

pub(crate) fn page(path: &Path) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: {error}; `make docs` builds it", path.display()))
}

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    let values = html.split(start.as_str()).skip(1);
    values.filter_map(|rest| rest.split('"').next()).collect()
}

/// File that a link names, with `..` resolved.
fn resolve(from: &Path, file: &str) -> PathBuf {
    let mut path = from.parent().expect("a folder").to_owned();
    for part in file.split('/') {
        match part {
            ".." => assert!(path.pop(), "{file} leaves everything"),
            "" | "." => {}
            part => path.push(part),
        }
    }
    path
}

/// Why a link to a file of the repository leads nowhere; such a file is at hand here.
fn fault_in_repository(link: &str) -> Option<String> {
    let rest = link.strip_prefix(env!("CARGO_PKG_REPOSITORY"))?;
    let file = rest
        .strip_prefix("/blob/HEAD/")
        .or(rest.strip_prefix("/raw/HEAD/"))?;
    let file = file.split('#').next().unwrap_or_default();
    (!root().join(file).is_file()).then(|| format!("{link}: no such file"))
}

/// Why the address of a page on docs.rs leads nowhere; the page is at hand here.
fn fault_on_docs_rs(link: &str) -> Option<String> {
    let rest = link.strip_prefix("https://docs.rs/multilock/latest/multilock/")?;
    let (file, anchor) = rest.split_once('#').unwrap_or((rest, ""));
    let target = resolve(&built().join("multilock/index.html"), file);
    if !target.is_file() {
        return Some(format!("{link}: no such page"));
    }
    let found = anchor.is_empty() || page(&target).contains(&format!("id=\"{anchor}\""));
    (!found).then(|| format!("{link}: no such anchor"))
}

/// The links of a page that lead nowhere, and the pages that others lead to.
fn follow(path: &Path, next: &mut Vec<PathBuf>) -> Vec<String> {
    let html = page(path);
    // Blanket implementations bring the words of other crates, and their links are about the pages of those crates.
    let ours = html.split("id=\"blanket-implementations\"").next();
    let html = ours.unwrap_or_default();
    let mut faults = Vec::new();
    let is_a_page = |link: &&str| Path::new(link).extension().is_none_or(|ending| ending != "js");
    let links = [values(html, "href"), values(html, "src")].concat();
    for link in links.into_iter().filter(is_a_page) {
        if link.contains("://") {
            faults.extend(fault_in_repository(link).or_else(|| fault_on_docs_rs(link)));
            continue;
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => path.to_owned(),
            file => resolve(path, file),
        };
        if !target.is_file() {
            faults.push(format!("{link}: no such file"));
        } else if target.extension().is_some_and(|ending| ending == "html") && !file.contains("../src/") {
            // Of sources the anchors are lines, which a script makes.
            let found = anchor.is_empty() || page(&target).contains(&format!("id=\"{anchor}\""));
            if !found {
                faults.push(format!("{link}: no such anchor"));
            }
            next.push(target);
        }
    }
    let at = path.strip_prefix(built()).unwrap_or(path).display();
    faults.into_iter().map(|fault| format!("{at}: {fault}")).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut seen = BTreeSet::new();
    let mut next = vec![built().join("multilock/index.html")];
    let mut faults = Vec::new();
    while let Some(path) = next.pop() {
        if seen.insert(path.clone()) {
            faults.extend(follow(&path, &mut next));
        }
    }
    assert!(seen.len() > 50, "{} pages", seen.len());
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_is_behind_a_feature_says_so() {
    for (file, feature) in [
        ("struct.Node.html", "rustls"),
        ("sim/struct.Cluster.html", "test-util"),
    ] {
        let html = page(&built().join("multilock").join(file));
        let told = format!("Available on <strong>crate feature <code>{feature}</code></strong> only");
        assert!(html.contains(&told), "{file} says nothing of {feature}");
    }
}

/// Errors have the address of an entry of the FAQ: its heading, with a hyphen for each space.
#[test]
fn entries_of_the_faq_are_where_errors_say() {
    let text = std::fs::read_to_string(root().join("docs/faq.md")).expect("the FAQ");
    let entries: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    assert!(entries.len() > 30, "{} entries", entries.len());
    let html = page(&built().join("multilock/guide/faq/index.html"));
    let ids = values(&html, "id");
    let is_missing = |entry: &&str| !ids.contains(&&*entry.replace(' ', "-").to_lowercase());
    let missing: Vec<_> = entries.into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no such anchor: {missing:#?}");
}
