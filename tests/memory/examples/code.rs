//! The code that documentation shows.

use syn::{Attribute, Expr, Lit, Meta};

/// The code in the docs of an item.
pub(super) fn code(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    code_of(&lines.collect::<Vec<_>>().join("\n"))
}

/// The Rust in a page of Markdown.
pub(super) fn code_of(page: &str) -> String {
    let (mut code, mut inside) = (String::new(), None);
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), inside) {
            (Some(language), None) => {
                let rust = ["", "no_run", "rust", "should_panic"]
                    .contains(&language.split(',').next().unwrap_or_default());
                inside = Some(rust && !language.contains("ignore"));
            }
            (Some(_), Some(_)) => inside = None,
            // A line that readers do not see shows nothing.
            (None, Some(true)) if !line.trim_start().starts_with("# ") => code.extend([line, "\n"]),
            (None, _) => {}
        }
    }
    code
}
