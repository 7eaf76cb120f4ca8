//! Sentences of the documents and of rustdoc: how long they are, how they begin, and words that have a plainer one.

use std::fmt::Write as _;
use std::path::Path;

use crate::tree::{root, text};

/// Words of the longest sentence that is not counted.
const LONGEST: usize = 30;

/// Words that have a plainer one, in lower case.
const UNWANTED: [&str; 17] = [
    "bears",
    "lest",
    "anew",
    "heed",
    "heeds",
    "heeded",
    "heeding",
    "stands again",
    "stand again",
    "rouse",
    "rouses",
    "roused",
    "bell",
    "bells",
    "relief",
    "doubt",
    "doubts",
];

/// Clauses that stand in the place of a subject.
const OPENINGS: [&str; 8] = [
    "Who", "Whoever", "Whom", "Whose", "What", "Where", "So many", "Those",
];

/// Clauses within a sentence for which a document has a noun, or `if`.
const CLAUSES: [&str; 7] = [
    " what ",
    ", where ",
    "; where ",
    " so many ",
    " those that ",
    " those who ",
    " whoever ",
];

#[derive(Debug, PartialEq)]
struct Sentence {
    line: usize,
    words: Vec<String>,
    asks: bool,
    /// The words outside of code with their punctuation, in lower case.
    prose: String,
}

/// Text of a paragraph, an item of a list or a cell, word by word, each with its line.
#[derive(Default)]
struct Block(Vec<(usize, String)>);

impl Block {
    fn push(&mut self, line: usize, text: &str) {
        self.0
            .extend(text.split_whitespace().map(|word| (line, word.to_owned())));
    }

    /// Ends the block: its sentences go to `found`.
    fn end(&mut self, found: &mut Vec<Sentence>) {
        let words = self.join_code();
        let mut rest = words.as_slice();
        while let Some((line, _)) = rest.first() {
            let ends = |at: &usize| {
                let next = rest.get(at + 1).and_then(|(_, next)| next.chars().next());
                ends_sentence(&rest[*at].1) && next.is_none_or(|c| !c.is_lowercase())
            };
            let end = (0..rest.len()).find(ends).map_or(rest.len(), |at| at + 1);
            let asks = rest[end - 1].1.contains('?');
            let all = || rest[..end].iter().map(|(_, word)| word.as_str());
            let words: Vec<_> = all().filter_map(spoken).collect();
            let prose: Vec<_> = all().filter(|word| !word.contains('`')).collect();
            if !words.is_empty() {
                found.push(Sentence {
                    line: *line,
                    words,
                    asks,
                    prose: prose.join(" ").to_lowercase(),
                });
            }
            rest = &rest[end..];
        }
    }

    /// The words, with each code span as one word.
    fn join_code(&mut self) -> Vec<(usize, String)> {
        let mut joined: Vec<(usize, String)> = Vec::new();
        let mut open = false;
        for (line, word) in std::mem::take(&mut self.0) {
            let ticks = word.matches('`').count();
            match joined.last_mut().filter(|_| open) {
                Some((_, last)) => *last += &word,
                None => joined.push((line, word)),
            }
            open ^= ticks % 2 == 1;
        }
        joined
    }
}

fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(['*', '_', ')', '"', ']']);
    word.ends_with(['.', '?', '!']) && !["e.g.", "i.e."].contains(&word)
}

/// The word without its punctuation, if it has a letter or a digit.
fn spoken(word: &str) -> Option<String> {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`');
    word.contains(char::is_alphanumeric).then(|| word.to_owned())
}

/// Whether a line begins an item of a list, and the text of the item.
fn item(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = (numbered.len() < line.len())
        .then(|| numbered.strip_prefix(". "))
        .flatten();
    let marked = ["* ", "- ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
    marked.or(numbered)
}

/// Sentences of Markdown, without code blocks, headings and definitions of links.
fn sentences<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut block = Block::default();
    let mut fenced = false;
    for (number, line) in lines {
        let line = line.trim();
        let fence = line.starts_with("```");
        let is_definition = line.starts_with('[') && line.contains("]: ");
        fenced ^= fence;
        if fence || fenced || line.is_empty() || line.starts_with(['#', '<']) || is_definition {
            block.end(&mut found);
        } else if line.starts_with('|') {
            block.end(&mut found);
            for cell in line.replace("\\|", "/").split('|') {
                block.push(number, cell);
                block.end(&mut found);
            }
        } else if let Some(text) = item(line) {
            block.end(&mut found);
            block.push(number, text);
        } else {
            block.push(number, line);
        }
    }
    block.end(&mut found);
    found
}

fn of_markdown(markdown: &str) -> Vec<Sentence> {
    sentences(markdown.lines().enumerate().map(|(at, line)| (at + 1, line)))
}

/// Sentences of `///` and `//!`. A line of code ends a comment, as an empty line does.
fn of_rustdoc(source: &str) -> Vec<Sentence> {
    let lines = source.lines().enumerate().map(|(at, line)| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or(line.strip_prefix("//!"));
        (at + 1, text.unwrap_or(""))
    });
    sentences(lines)
}

impl Sentence {
    fn is_long(&self) -> bool {
        self.words.len() > LONGEST
    }

    fn has_unwanted(&self) -> bool {
        let prose: Vec<_> = self.words.iter().filter(|word| !word.contains('`')).collect();
        let prose = prose.iter().map(|word| word.to_lowercase());
        let prose = format!(" {} ", prose.collect::<Vec<_>>().join(" "));
        UNWANTED.iter().any(|word| prose.contains(&format!(" {word} ")))
    }

    fn opens_with_a_clause(&self) -> bool {
        let text = self.words.join(" ");
        let opens = |opening: &str| {
            let rest = text.strip_prefix(opening).and_then(|rest| rest.strip_prefix(' '));
            rest.is_some_and(|rest| {
                opening != "Those" || rest.starts_with("who ") || rest.starts_with("that ")
            })
        };
        !self.asks && OPENINGS.into_iter().any(opens)
    }
}

/// Sentences of Markdown that have one of [`CLAUSES`].
fn with_clauses(markdown: &str) -> Vec<Sentence> {
    let mut found = of_markdown(markdown);
    found.retain(|of| !of.asks && CLAUSES.iter().any(|clause| of.prose.contains(clause)));
    found
}

/// Sentences that may be left in a group of files: long ones in a hundred, others by number.
struct Limits {
    long_percent: usize,
    unwanted: usize,
    openings: usize,
}

/// Holds the files to the limits; a failure shows the sentences.
fn check(group: &str, files: &[String], read: fn(&str) -> Vec<Sentence>, limits: &Limits) {
    let mut all = 0;
    let (mut long, mut unwanted, mut openings) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        for sentence in read(&text(file)) {
            all += 1;
            let shown = format!("{file}:{}: {}", sentence.line, sentence.words.join(" "));
            let kinds = [
                (sentence.is_long(), &mut long),
                (sentence.has_unwanted(), &mut unwanted),
                (sentence.opens_with_a_clause(), &mut openings),
            ];
            for (_, kind) in kinds.into_iter().filter(|(is, _)| *is) {
                kind.push(shown.clone());
            }
        }
    }
    let counts = [
        ("longer than 30 words", long, all * limits.long_percent / 100),
        ("with an unwanted word", unwanted, limits.unwanted),
        ("that open with a clause", openings, limits.openings),
    ];
    let mut faults = String::new();
    for (what, found, limit) in counts {
        println!("{group}: {} of {all} sentences {what}", found.len());
        if found.len() > limit {
            let _ = writeln!(faults, "{group}: {} {what}, {limit} may be left", found.len());
            faults += &(found.join("\n") + "\n");
        }
    }
    assert!(all > 40, "{group}: hardly anything was read");
    assert!(faults.is_empty(), "{faults}");
}

/// Files with an ending, below a folder or, unless it is `deep`, in it.
fn files(folder: &str, ending: &str, deep: bool) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder))
        .expect("a folder")
        .flatten()
    {
        let path = format!("{folder}/{}", entry.file_name().to_str().expect("a name"));
        if entry.path().is_dir() {
            found.extend(deep.then(|| files(&path, ending, true)).into_iter().flatten());
        } else if Path::new(&path).extension().is_some_and(|is| is == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn the_readme_is_in_plain_words() {
    let limits = Limits {
        long_percent: 0,
        unwanted: 0,
        openings: 0,
    };
    check("README", &["README.md".to_owned()], of_markdown, &limits);
}

#[test]
fn the_documents_are_in_plain_words() {
    let limits = Limits {
        long_percent: 1,
        unwanted: 0,
        openings: 0,
    };
    let beside = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned);
    let documents = [files("docs", "md", false), beside.to_vec()].concat();
    check("docs", &documents, of_markdown, &limits);
}

#[test]
fn the_documents_have_nouns_in_place_of_clauses() {
    let mut documents = files("docs", "md", true);
    documents.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned));
    for file in documents {
        let found = with_clauses(&text(&file));
        assert!(found.is_empty(), "{file}: {found:#?}");
    }
}

#[test]
fn rustdoc_is_in_plain_words() {
    let limits = Limits {
        long_percent: 1,
        unwanted: 0,
        openings: 0,
    };
    let sources = [files("src", "rs", true), files("cli/src", "rs", true)].concat();
    check("rustdoc", &sources, of_rustdoc, &limits);
}

#[test]
fn rustdoc_of_tests_is_in_plain_words() {
    let limits = Limits {
        long_percent: 2,
        unwanted: 0,
        openings: 0,
    };
    let roots = ["tests", "cli/tests", "benches", "examples"];
    let sources: Vec<String> = roots.iter().flat_map(|root| files(root, "rs", true)).collect();
    check("rustdoc of tests", &sources, of_rustdoc, &limits);
}

#[test]
fn the_counter_finds_what_it_looks_for() {
    let long = ["Word"; LONGEST + 1].join(" ");
    let fits = ["Word"; LONGEST].join(" ");
    let found = of_markdown(&format!(
        "# What is no sentence\n\n{long}.\n{fits}. {fits}.\n\n```text\n{long}\n```\n\n| {long} | It bears it. | `bears` |\n\n\
         * Who waits? Where it waits, it\n  is seen. Those that wait. Those two.\n* Not `lest x`, e.g. Xs.\n"
    ));
    let long: Vec<_> = found.iter().filter(|of| of.is_long()).map(|of| of.line).collect();
    assert_eq!(long, [3, 10], "{found:#?}");
    let unwanted = found.iter().filter(|of| of.has_unwanted());
    assert_eq!(unwanted.map(|of| of.line).collect::<Vec<_>>(), [10]);
    let openings = found.iter().filter(|of| of.opens_with_a_clause());
    assert_eq!(openings.map(|of| of.line).collect::<Vec<_>>(), [12, 13]);
}

#[test]
fn a_clause_is_found_in_the_middle_of_a_sentence() {
    let found = with_clauses(
        "It is known, where it runs.\nIt is where it runs.\nHe knows `x what y`.\nIt shows what breaks.\n",
    );
    assert_eq!(found.iter().map(|of| of.line).collect::<Vec<_>>(), [1, 4]);
}

#[test]
fn the_counter_reads_rustdoc_and_nothing_else_of_a_source() {
    let found = of_rustdoc(
        "//! One. Two.\n// What is no doc.\nfn f() {}\n    /// What is one,\n    /// over two lines.\n",
    );
    assert_eq!(found.iter().map(|of| of.line).collect::<Vec<_>>(), [1, 1, 4]);
    assert!(found[2].opens_with_a_clause() && found[2].words.len() == 6);
}
