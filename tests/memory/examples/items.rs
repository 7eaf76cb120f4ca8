//! Public items of the crate, read from its source: types, traits, functions and methods, each with the code of its
//! examples. `rustdoc --show-coverage` wants examples of the same items. Methods from a macro are not among them: those of
//! errors, which answer as [`multilock::LockError`] does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::{Attribute, ImplItem, Item, ItemImpl, Meta, TraitItem, Type, UseTree, Visibility};

use super::code::code;

/// A module and the name of something in it.
type Place = (String, String);

/// Public items as their users name them, each with the code that its docs show.
pub(super) type Items = BTreeMap<String, String>;

/// One file of the source.
struct Module {
    items: Vec<Item>,
    /// Imported items by the names that they have here: their places, and whether they are exported again.
    imports: BTreeMap<String, (Place, bool)>,
}

pub(super) struct Source(BTreeMap<String, Module>);

impl Source {
    pub(super) fn read(root: &Path) -> Self {
        let mut modules = BTreeMap::new();
        read(&root.join("src"), "crate", &mut modules);
        Self(modules)
    }

    pub(super) fn public_items(&self) -> Items {
        let mut public = BTreeMap::new();
        self.walk("crate", "", &mut public);
        let mut items = Items::new();
        for ((module, name), path) in &public {
            self.describe(module, name, path, &mut items);
        }
        for (module, source) in &self.0 {
            for item in &source.items {
                if let Item::Impl(block) = item
                    && block.trait_.is_none()
                    && let Some(path) = public.get(&self.implements(module, block))
                {
                    methods(block, path, &mut items);
                }
            }
        }
        items
    }

    /// Notes the items that a public module lets its users name, with their paths.
    fn walk(&self, module: &str, prefix: &str, public: &mut BTreeMap<Place, String>) {
        let source = &self.0[module];
        for item in &source.items {
            if let Item::Mod(inner) = item {
                let path = format!("{module}::{}", inner.ident);
                // A module that is written out here, like the guides, has no file.
                if is_public(&inner.vis) && !is_hidden(&inner.attrs) && self.0.contains_key(&path) {
                    self.walk(&path, &format!("{prefix}{}::", inner.ident), public);
                }
            } else if let Some((name, ..)) = defined(item) {
                public.insert((module.to_owned(), name.clone()), format!("{prefix}{name}"));
            }
        }
        for (name, ((from, inner), given_on)) in &source.imports {
            if *given_on && self.0.contains_key(from) {
                public.insert(self.home(from, inner), format!("{prefix}{name}"));
            }
        }
    }

    /// Place of the definition of an item that `module` calls by `name`.
    fn home(&self, module: &str, name: &str) -> Place {
        let here = (module.to_owned(), name.to_owned());
        let Some(source) = self.0.get(module) else {
            return here;
        };
        match source.imports.get(name) {
            Some(((from, inner), _)) => self.home(from, inner),
            None => here,
        }
    }

    fn implements(&self, module: &str, block: &ItemImpl) -> Place {
        let Type::Path(path) = &*block.self_ty else {
            return Place::default();
        };
        let last = path.path.segments.last().expect("a path has segments");
        self.home(module, &last.ident.to_string())
    }

    fn describe(&self, module: &str, name: &str, path: &str, items: &mut Items) {
        for item in &self.0[module].items {
            let Some((defined, attrs)) = defined(item) else {
                continue;
            };
            if defined != name {
                continue;
            }
            items.insert(path.to_owned(), code(attrs));
            let Item::Trait(described) = item else { continue };
            for method in &described.items {
                if let TraitItem::Fn(method) = method {
                    items.insert(format!("{path}::{}", method.sig.ident), code(&method.attrs));
                }
            }
        }
    }
}

fn read(folder: &Path, module: &str, modules: &mut BTreeMap<String, Module>) {
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().expect("a name"));
        if path.is_dir() {
            read(&path, &format!("{module}::{name}"), modules);
        } else if let Some(name) = name.strip_suffix(".rs").filter(|name| *name != "tests") {
            let module = match name {
                "lib" | "mod" => module.to_owned(),
                _ => format!("{module}::{name}"),
            };
            let text = fs::read_to_string(&path).expect("a text");
            let items = syn::parse_file(&text).expect("Rust").items;
            let mut imports = BTreeMap::new();
            for item in &items {
                if let Item::Use(import) = item {
                    note(
                        &module,
                        &import.tree,
                        &mut Vec::new(),
                        is_public(&import.vis),
                        &mut imports,
                    );
                }
            }
            modules.insert(module, Module { items, imports });
        }
    }
}

fn note(
    module: &str,
    tree: &UseTree,
    path: &mut Vec<String>,
    given_on: bool,
    imports: &mut BTreeMap<String, (Place, bool)>,
) {
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            note(module, &inner.tree, path, given_on, imports);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                note(module, tree, path, given_on, imports);
            }
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            imports.insert(name.clone(), ((absolute(module, path), name), given_on));
        }
        UseTree::Rename(name) => {
            let place = (absolute(module, path), name.ident.to_string());
            imports.insert(name.rename.to_string(), (place, given_on));
        }
        UseTree::Glob(_) => {}
    }
}

/// Full path, from the root of the crate, of a path in this module.
fn absolute(module: &str, path: &[String]) -> String {
    let (start, rest) = match path.first().map(String::as_str) {
        Some("crate") => ("crate", &path[1..]),
        Some("self") => (module, &path[1..]),
        Some("super") => (
            module.rsplit_once("::").map_or("crate", |(above, _)| above),
            &path[1..],
        ),
        _ => (module, path),
    };
    [start]
        .into_iter()
        .chain(rest.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join("::")
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attrs: &[Attribute]) -> bool {
    let hidden =
        |attr: &Attribute| matches!(&attr.meta, Meta::List(list) if list.tokens.to_string() == "hidden");
    attrs
        .iter()
        .any(|attr| attr.path().is_ident("doc") && hidden(attr))
}

/// Name and attributes of an item that is to have an example, if it is public.
fn defined(item: &Item) -> Option<(String, &[Attribute])> {
    let (visibility, name, attrs) = match item {
        Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Trait(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Fn(item) => (&item.vis, &item.sig.ident, &item.attrs),
        _ => return None,
    };
    is_public(visibility).then(|| (name.to_string(), attrs.as_slice()))
}

fn methods(block: &ItemImpl, path: &str, items: &mut Items) {
    for item in &block.items {
        if let ImplItem::Fn(method) = item
            && is_public(&method.vis)
        {
            items.insert(format!("{path}::{}", method.sig.ident), code(&method.attrs));
        }
    }
}
