//! Imports run one way: a module names its own layer and those below it, and no modules name each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From below to above, by folders, and by files in the folders of [`ROOMS`]. Nothing in the crate names `sim`, which stands
/// beside `acquire`.
const LAYERS: [&[&str]; 10] = [
    &[
        "time",
        "votes",
        "token",
        "holder",
        "last_force",
        "capabilities",
        "master_set",
    ],
    &["error"],
    &[
        "config",
        "credentials",
        "names",
        "namespace",
        "client_label",
        "policy",
        "status",
        "examination",
    ],
    &["events"],
    &["protocol"],
    &["node", "round", "yielding"],
    &["queue", "hold", "subscription", "foreign_releases", "interop"],
    &[
        "owner",
        "mode",
        "inspect",
        "scan",
        "force",
        "masters",
        "closing",
        "connecting",
    ],
    &[
        "hold_guard",
        "guard",
        "set_guard",
        "node_options",
        "builder",
        "env",
        "examine",
        "acquire",
        "sim",
    ],
    &[
        "options",
        "lead",
        "leader",
        "leadership",
        "held",
        "once",
        "permits",
        "lock",
        "set",
        "admin",
        "values",
        "fuzzing",
        "guide",
        "crate",
    ],
];

/// Folders of items that users of the crate can name, and of items that serve other libraries. Their files stand on layers
/// of their own.
const ROOMS: [&str; 5] = ["lock", "masters", "admin", "values", "interop"];

/// The modules, each with its text: no comments, nothing that only tests are built with.
type Modules = BTreeMap<String, String>;

/// The modules that each module names.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn read(folder: &Path, module: &str, modules: &mut Modules) {
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().expect("a name"));
        let inner = |name: &str| format!("{module}::{name}");
        if path.is_dir() {
            read(&path, &inner(&name), modules);
        } else if let Some(name) = name.strip_suffix(".rs").filter(|name| *name != "tests") {
            let whole = ["lib", "mod"].contains(&name);
            let module = if whole { module.to_owned() } else { inner(name) };
            let text = fs::read_to_string(path).expect("a text");
            modules.insert(module, without_tests(&text));
        }
    }
}

fn without_tests(text: &str) -> String {
    let mut product = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            let indent = &line[..line.len() - line.trim_start().len()];
            let mut item = lines
                .by_ref()
                .skip_while(|line| line.trim_start().starts_with("#["));
            let head = item.next().unwrap_or_default();
            if !head.ends_with(';') {
                lines.by_ref().find(|line| *line == format!("{indent}}}"));
            }
        } else {
            let code = line.split("//").next().unwrap_or_default();
            product.extend([code, "\n"]);
        }
    }
    product
}

/// The text behind each `word` that stands by itself.
fn behind<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let by_itself = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
    text.match_indices(word)
        .filter(move |(at, _)| by_itself(*at))
        .map(move |(at, _)| &text[at + word.len()..])
}

/// The paths of a tree, as in `use`, or the one path that stands there.
fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let end = tree.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
    let (path, rest) = tree.split_at(end.unwrap_or(tree.len()));
    let path = format!("{before}{path}");
    let Some(tree) = rest.strip_prefix('{').filter(|_| path.ends_with("::")) else {
        paths.push(path.trim_end_matches("::self").to_owned());
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                let item = tree[start..at].trim_start();
                if !item.is_empty() {
                    expand(&path, item, paths);
                }
                if c == '}' {
                    return;
                }
                start = at + 1;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("crate", |(parent, _)| parent)
}

/// Items that a module re-exports from modules below it: paths by names.
fn given_on(module: &str, text: &str) -> BTreeMap<String, String> {
    let mut paths = Vec::new();
    for start in ["pub(crate) use ", "pub use "] {
        for tree in behind(text, start) {
            expand("", tree.strip_prefix("self::").unwrap_or(tree), &mut paths);
        }
    }
    let inner = |path: String| {
        let name = path.rsplit("::").next().unwrap_or_default().to_owned();
        (name, format!("{module}::{path}"))
    };
    paths.into_iter().map(inner).collect()
}

/// The module that has the item of a path.
fn home(modules: &Modules, path: &str) -> Option<String> {
    let mut module = path;
    while !modules.contains_key(module) {
        module = module.rsplit_once("::")?.0;
    }
    let name = path[module.len()..].split("::").nth(1).unwrap_or_default();
    match given_on(module, &modules[module]).get(name) {
        Some(given) if given != path => home(modules, given),
        // A module gives its own macro on by its name.
        _ => Some(module.to_owned()),
    }
}

fn imports() -> Imports {
    let mut modules = Modules::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    read(&root, "crate", &mut modules);
    let named = |module: &String| {
        let text = &modules[module];
        let mut paths = Vec::new();
        for tree in behind(text, "crate::") {
            expand("crate::", tree, &mut paths);
        }
        for tree in behind(text, "super::") {
            let (above, tree) = match tree.strip_prefix("super::") {
                Some(tree) => (parent(parent(module)), tree),
                None => (parent(module), tree),
            };
            expand(&format!("{above}::"), tree, &mut paths);
        }
        for tree in behind(text, "\nuse self::") {
            expand(&format!("{module}::"), tree, &mut paths);
        }
        // Modules of its own folder count by names alone. A mere re-export counts for the module that imports it.
        let is_use = |line: &str| {
            ["use ", "pub use ", "pub(crate) use "]
                .iter()
                .any(|start| line.starts_with(start))
        };
        let own: String = text
            .split_inclusive(';')
            .filter(|item| !item.lines().any(is_use))
            .collect();
        let inner = modules
            .keys()
            .filter(|other| *other != module && parent(other) == module);
        for child in inner {
            let name = format!("{}::", child.rsplit("::").next().unwrap_or_default());
            paths.extend(behind(&own, &name).map(|_| child.clone()));
        }
        let given = given_on(module, text).into_iter();
        let used = given.filter(|(name, _)| behind(&own, name).next().is_some());
        paths.extend(used.map(|(_, path)| path));
        let homes = paths.iter().filter_map(|path| home(&modules, path));
        homes.filter(|home| home != module).collect()
    };
    let of_crate = modules.keys().filter(|module| *module != "crate");
    of_crate.map(|module| (module.clone(), named(module))).collect()
}

fn layer(module: &str) -> usize {
    let mut path = module.split("::").skip(1);
    let top = path.next().unwrap_or("crate");
    let name = path.next().filter(|_| ROOMS.contains(&top)).unwrap_or(top);
    let layer = LAYERS.iter().position(|layer| layer.contains(&name));
    layer.unwrap_or_else(|| panic!("{name} is in no layer"))
}

/// Whether the imports lead from one module to the other.
fn leads(imports: &Imports, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for named in imports.get(module).into_iter().flatten() {
            if named == to {
                return true;
            }
            if seen.insert(named) {
                next.push(named);
            }
        }
    }
    false
}

/// The imports that run upwards or are on a circle.
fn wrong(imports: &Imports) -> BTreeSet<(String, String)> {
    let each = imports
        .iter()
        .flat_map(|(from, named)| named.iter().map(move |to| (from, to)));
    each.filter(|(from, to)| layer(to) > layer(from) || leads(imports, to, from))
        .map(|(from, to)| (from.clone(), to.clone()))
        .collect()
}

/// Spans, events and figures come from one place.
#[test]
fn only_events_tells_what_happens() {
    let mut modules = Modules::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "crate",
        &mut modules,
    );
    let tells = |(module, text): (&String, &String)| {
        let told = ["tracing", "metrics"].iter().any(|library| {
            let mut named = behind(text, library);
            named.any(|rest| rest.starts_with("::"))
        });
        told.then(|| module.clone())
    };
    let telling: BTreeSet<_> = modules.iter().filter_map(tells).collect();
    assert!(telling.contains("crate::events::log"), "hardly anything was read");
    let elsewhere: Vec<_> = telling
        .iter()
        .filter(|module| !module.starts_with("crate::events"))
        .collect();
    assert!(elsewhere.is_empty(), "not in events: {elsewhere:?}");
}

/// A word has one meaning.
#[test]
fn no_two_types_share_a_name() {
    let mut modules = Modules::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    read(&root, "crate", &mut modules);
    let mut homes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, text) in &modules {
        for line in text.lines() {
            let (is_indented, line) = (line.starts_with(' '), line.trim_start());
            let line = ["pub ", "pub(crate) ", "pub(super) "]
                .iter()
                .find_map(|start| line.strip_prefix(start))
                .unwrap_or(line);
            let item = ["struct ", "enum ", "trait ", "type "]
                .iter()
                .find_map(|start| line.strip_prefix(start));
            let end = |item: &str| item.find(|c: char| !c.is_alphanumeric()).unwrap_or(item.len());
            // Types of a trait have the trait's names, and macros give theirs.
            let has_name = |item: &&str| !(item.starts_with('$') || is_indented && item.contains("= "));
            if let Some(item) = item.filter(has_name) {
                homes.entry(&item[..end(item)]).or_default().insert(module);
            }
        }
    }
    assert!(homes.len() > 200, "hardly anything was read");
    homes.retain(|_, modules| modules.len() > 1);
    assert!(homes.is_empty(), "one name for several types: {homes:#?}");
}

/// Modules that decide without a runtime or a connection: messages, votes, holds, trust in a master. A name stands for the
/// modules in its folder, too.
const PURE: [&str; 14] = [
    "protocol",
    "acquire::step",
    "values",
    "time::validity",
    "time::backoff",
    "time::rounded",
    "hold::expiry",
    "hold::handoff",
    "hold::state",
    "hold::tokens",
    "hold::vote_record",
    "node::trust::clock_check",
    "node::trust::offsets",
    "node::trust::servers",
];

/// Of tokio they have its clock, which tests can stop, and a token that can be cancelled; of `redis` its values and commands.
#[test]
fn decisions_need_no_runtime() {
    let mut modules = Modules::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    read(&root, "crate", &mut modules);
    let is_in = |module: &str, pure: &str| {
        let path = module.strip_prefix("crate::").unwrap_or(module);
        path.strip_prefix(pure)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    for pure in PURE {
        assert!(modules.keys().any(|module| is_in(module, pure)), "{pure} is gone");
    }
    let pure = modules
        .iter()
        .filter(|(module, _)| PURE.iter().any(|pure| is_in(module, pure)));
    let mut impure = Vec::new();
    for (module, text) in pure {
        let mut paths = Vec::new();
        for library in ["tokio::", "tokio_util::", "futures::", "redis::"] {
            for tree in behind(text, library) {
                expand(library, tree, &mut paths);
            }
        }
        let drives = |path: &String| match path.strip_prefix("redis::") {
            Some(item) => ["aio", "Client", "Connection", "AsyncCommands", "Commands"]
                .iter()
                .any(|driver| item.starts_with(driver)),
            None => !["tokio::time::Instant", "tokio_util::sync::CancellationToken"].contains(&&**path),
        };
        impure.extend(paths.into_iter().filter(drives).map(|path| (module, path)));
    }
    assert!(impure.is_empty(), "{impure:?}");
}

#[test]
fn imports_run_one_way() {
    let all = imports();
    assert!(all.values().flatten().count() > 200, "hardly anything was read");
    let wrong = wrong(&all);
    let upwards: Vec<_> = wrong
        .iter()
        .filter(|(from, to)| layer(to) > layer(from))
        .collect();
    assert!(upwards.is_empty(), "upwards: {upwards:#?}");
    assert!(wrong.is_empty(), "in a circle: {wrong:#?}");
}
