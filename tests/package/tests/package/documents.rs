//! The documents as Markdown: headings, and links with their labels.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::tree::{root, text};

pub(crate) struct Link {
    pub(crate) to: String,
    /// The label of a link by reference.
    pub(crate) label: Option<String>,
}

#[derive(Default)]
pub(crate) struct Document {
    pub(crate) links: Vec<Link>,
    /// The anchors of its headings.
    pub(crate) anchors: BTreeSet<String>,
    /// Labels that nothing defines.
    pub(crate) undefined: Vec<String>,
}

/// All documents of the repository, by their paths from the root.
pub(crate) fn all() -> Vec<String> {
    let mut found = Vec::new();
    let mut next = vec![PathBuf::new(), PathBuf::from("docs")];
    while let Some(folder) = next.pop() {
        for entry in std::fs::read_dir(root().join(&folder))
            .expect("a folder")
            .flatten()
        {
            let path = folder.join(entry.file_name());
            if folder.starts_with("docs") && entry.path().is_dir() {
                next.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path.to_str().expect("a name").to_owned());
            }
        }
    }
    assert!(found.len() > 8, "hardly anything was found: {found:?}");
    found
}

/// The anchor of a heading, as forges and rustdoc make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || "-_".contains(c) => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

pub(crate) fn read(path: &str) -> Document {
    let markdown = text(path);
    let mut undefined = Vec::new();
    let mut document = Document::default();
    let broken = |link: BrokenLink<'_>| {
        undefined.push(link.reference.to_string());
        None::<(CowStr<'_>, CowStr<'_>)>
    };
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_TASKLISTS;
    let mut heading = None;
    for event in Parser::new_with_broken_link_callback(&markdown, options, Some(broken)) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                document.anchors.extend(heading.take().map(|text| anchor(&text)));
            }
            Event::Text(text) | Event::Code(text) => heading.iter_mut().for_each(|so_far| *so_far += &text),
            Event::Start(
                Tag::Link {
                    link_type,
                    dest_url,
                    id,
                    ..
                }
                | Tag::Image {
                    link_type,
                    dest_url,
                    id,
                    ..
                },
            ) => document.links.push(Link {
                to: dest_url.to_string(),
                label: (link_type != LinkType::Inline && link_type != LinkType::Autolink)
                    .then(|| id.to_string()),
            }),
            _ => {}
        }
    }
    document.undefined = undefined;
    document
}

impl Link {
    pub(crate) fn is_of_the_tree(&self) -> bool {
        !self.to.contains("://") && !self.to.starts_with("mailto:")
    }

    /// Whether it is about something of the crate.
    pub(crate) fn is_of_code(&self) -> bool {
        self.label.as_ref().is_some_and(|label| label.starts_with('`'))
    }

    /// The file that it names from a document, by its path from the root, and the anchor in it.
    pub(crate) fn target(&self, document: &str) -> (String, Option<&str>) {
        let (file, anchor) = match self.to.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor)),
            None => (self.to.as_str(), None),
        };
        if file.is_empty() {
            return (document.to_owned(), anchor);
        }
        let mut path = Path::new(document).parent().unwrap_or(Path::new("")).to_owned();
        for part in Path::new(file).components() {
            match part {
                Component::ParentDir => assert!(path.pop(), "{document}: {file} leaves the repository"),
                part => path.push(part),
            }
        }
        (path.to_str().expect("a name").to_owned(), anchor)
    }
}
