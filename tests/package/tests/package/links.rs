//! Every link of the documents leads somewhere: in the repository, on the registry's page, which puts the repository's URL
//! before relative ones, and on docs.rs, where `src/links.in` stands before each document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::documents::{Link, all, read};
use crate::tree::{package, root, text};

/// The definitions that stand before each document on docs.rs: where a label leads.
const DEFINITIONS: &str = include!("../../../../src/links.in");

fn definitions() -> BTreeMap<&'static str, &'static str> {
    let define = |line: &'static str| {
        let (label, to) = line.split_once("]: ").expect("a definition");
        (label.trim_start_matches('['), to)
    };
    DEFINITIONS.lines().map(define).collect()
}

/// The documents that are a part of the crate's docs.
fn included() -> BTreeSet<String> {
    let crate_root = text("src/lib.rs") + &text("src/guide.rs");
    let include = "doc = include_str!(\"../";
    let before = |at: usize| {
        let line = crate_root[..at].lines().rev().nth(1).unwrap_or_default();
        assert!(
            line.contains("include!(\"links.in\")"),
            "no links.in before {at}: {line}"
        );
    };
    let files = crate_root.match_indices(include).map(|(at, _)| {
        before(at);
        let file = &crate_root[at + include.len()..];
        file.split('"').next().expect("a path").to_owned()
    });
    files.collect()
}

#[test]
fn what_the_documents_link_to_is_there() {
    let mut lost = Vec::new();
    let mut followed = 0;
    for document in all() {
        let page = read(&document);
        // A heading that the form of the changelog wants so.
        let undefined = page.undefined.iter().filter(|label| *label != "Unreleased");
        lost.extend(undefined.map(|label| format!("{document}: [{label}]")));
        for link in page.links.iter().filter(|link| link.is_of_the_tree()) {
            followed += 1;
            let (file, anchor) = link.target(&document);
            let there = root().join(&file).exists();
            let found = |anchor: &str| read(&file).anchors.contains(anchor);
            if !there || !anchor.is_none_or(found) {
                lost.push(format!("{document}: {}", link.to));
            }
        }
    }
    assert!(followed > 30, "hardly anything was followed");
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Whether a link needs a definition on docs.rs: it leads to another file, or to code.
fn is_relative(link: &Link) -> bool {
    link.is_of_code() || (link.is_of_the_tree() && !link.to.starts_with('#'))
}

/// Reason why a link of a document does not work on docs.rs.
fn fault(link: &Link) -> Option<String> {
    let Some(label) = &link.label else {
        return Some(format!("({}) is no link by reference", link.to));
    };
    let file = label.split('#').next().expect("a path");
    if !link.is_of_code() && !root().join(file).exists() {
        return Some(format!("[{label}] is no path from the root"));
    }
    let defined = definitions().contains_key(label.as_str());
    (!defined).then(|| format!("[{label}] is not in src/links.in"))
}

/// A label is the path from the root, so that one list of definitions serves documents of every folder.
#[test]
fn what_docs_rs_shows_links_by_labels_that_are_defined_for_it() {
    let included = included();
    assert!(included.contains("README.md"), "{included:?}");
    assert!(included.len() > 2, "{included:?}");
    let mut wrong = Vec::new();
    for document in &included {
        let links = read(document).links;
        let faults = links.iter().filter(|link| is_relative(link)).filter_map(fault);
        wrong.extend(faults.map(|fault| format!("{document}: {fault}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_definition_for_docs_rs_is_used_by_a_document() {
    let documents = all();
    let links = documents.iter().flat_map(|document| read(document).links);
    let used: BTreeSet<String> = links.filter_map(|link| link.label).collect();
    let defined = definitions().into_keys();
    let idle: Vec<_> = defined.filter(|label| !used.contains(*label)).collect();
    assert!(idle.is_empty(), "nothing uses {idle:#?} of src/links.in");
}

/// A document that is a page of the docs is linked to as that page; everything else at its file in the repository.
#[test]
fn labels_lead_to_pages_of_the_docs_or_files_of_the_repository() {
    let repository = package("multilock").repository.as_deref().expect("a repository");
    let included = included();
    for (label, to) in definitions() {
        let file = label.split('#').next().expect("a path");
        if label.starts_with('`') || included.contains(file) {
            assert!(to.starts_with("crate::"), "[{label}] leads to {to}");
            continue;
        }
        let is_picture = Path::new(label)
            .extension()
            .is_some_and(|ending| ending == "svg" || ending == "png");
        let how = if is_picture { "raw" } else { "blob" };
        assert_eq!(to, format!("{repository}/{how}/HEAD/{label}"));
    }
}

/// Pages of the guide, each with its document.
fn guide() -> BTreeMap<String, String> {
    let source = text("src/guide.rs");
    let pages = source.split("include_str!(\"../").skip(1).map(|rest| {
        let (document, rest) = rest.split_once('"').expect("a path");
        let module = rest.split_once("pub mod ").expect("a module").1;
        let module = module.split(' ').next().expect("a name");
        (module.to_owned(), document.to_owned())
    });
    pages.collect()
}

/// Reason why a page of the guide, or an anchor on it, does not exist.
fn fault_of_page(module: &str, anchor: Option<&str>) -> Option<String> {
    let Some(document) = guide().remove(module) else {
        return Some(format!("the guide has no page {module}"));
    };
    let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
    let found = read(&document).anchors.contains(anchor);
    (!found).then(|| format!("{document} has no heading #{anchor}"))
}

#[test]
fn labels_of_documents_lead_to_their_pages_and_headings() {
    for (label, to) in definitions() {
        let Some(page) = to.strip_prefix("crate::guide::") else {
            continue;
        };
        let (module, anchor) = page
            .split_once('#')
            .map_or((page, None), |(module, anchor)| (module, Some(anchor)));
        assert_eq!(fault_of_page(module, anchor), None, "[{label}]");
        let of_label = label.split_once('#').map(|(_, anchor)| anchor);
        assert_eq!(of_label, anchor, "[{label}] leads to {to}");
        let file = label.split('#').next();
        assert_eq!(
            file,
            guide().get(module).map(String::as_str),
            "[{label}] leads to {to}"
        );
    }
}

/// Files of some folders, by their paths from the root.
fn files_below(folders: &[&str], endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut next: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = next.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_dir() {
                next.push(path);
            } else if ending.is_some_and(|ending| endings.contains(&ending)) {
                let path = path.strip_prefix(root()).expect("below the root");
                found.push(path.to_str().expect("a name").to_owned());
            }
        }
    }
    found
}

/// Messages and documents give whole addresses: their readers are in a log or a terminal, not in a page.
#[test]
fn addresses_of_the_guide_are_those_of_its_pages_and_headings() {
    const GUIDE: &str = "https://docs.rs/multilock/latest/multilock/guide/";
    let mut files = files_below(
        &["src", "cli/src", "contrib", "docs", "examples", "lua"],
        &["rs", "md", "lua", "yml", "yaml", "json", "conf", "html", "js"],
    );
    files.extend(["README.md".to_owned(), "CHANGELOG.md".to_owned()]);
    let (mut faults, mut followed) = (Vec::new(), 0);
    for file in files {
        let is_of_address = |c: char| c.is_ascii_alphanumeric() || "/#._-".contains(c);
        for rest in text(&file).split(GUIDE).skip(1) {
            followed += 1;
            let end = rest.find(|c| !is_of_address(c)).unwrap_or(rest.len());
            let (page, anchor) = rest[..end].split_once('#').unwrap_or((&rest[..end], ""));
            let fault = match page.strip_suffix("/index.html") {
                Some(module) => fault_of_page(module, Some(anchor)),
                None => Some(format!("{page} is no page")),
            };
            faults.extend(fault.map(|fault| format!("{file}: {fault}")));
        }
    }
    assert!(followed > 10, "hardly anything was followed");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Text between the quotes behind each `start`.
fn quoted<'a>(source: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let behind = source.split(start).skip(1);
    behind.filter_map(|rest| rest.split('"').next())
}

/// Errors name an entry by its heading: those of the library as `Faq("…")`, findings of the command as `.faq("…")`, and
/// refusals as the second of three texts.
#[test]
fn entries_that_errors_and_findings_name_are_in_the_faq() {
    let mut named = BTreeSet::new();
    for file in files_below(&["src", "cli/src"], &["rs"]) {
        let source = text(&file);
        named.extend(quoted(&source, "Faq(\"").map(str::to_owned));
        named.extend(quoted(&source, ".faq(\"").map(str::to_owned));
    }
    let refusals = text("cli/src/doctor/refusal.rs");
    let (_, remedies) = refusals.split_once("fn remedy(").expect("the remedies");
    let texts: Vec<_> = remedies.split('"').skip(1).step_by(2).collect();
    assert!(texts.len() > 30 && texts.len() % 3 == 0, "{texts:#?}");
    named.extend(texts.chunks(3).map(|remedy| remedy[1].to_owned()));
    assert!(named.len() > 20, "{named:?}");
    let anchors = read("docs/faq.md").anchors;
    let is_missing = |entry: &&String| !anchors.contains(&entry.replace(' ', "-"));
    let missing: Vec<_> = named.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no heading: {missing:#?}");
}

/// The page of the command has no repository path that the registry could know.
#[test]
fn the_page_of_the_command_needs_no_file_beside_it() {
    for link in read("docs/command.md").links {
        assert!(!link.is_of_the_tree() || link.to.starts_with('#'), "{}", link.to);
    }
}
