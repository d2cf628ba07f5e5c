//! The tokens of a source file: its modules, its imports, the paths that it uses and the names that it defines.

use std::str::FromStr;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A module: a file, or a block in one.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// `mod name;`: a file of its own.
    pub(crate) files: Vec<String>,
    /// `mod name { … }`.
    pub(crate) blocks: Vec<(String, Self)>,
    pub(crate) uses: Vec<Use>,
    /// The paths in the code of two segments or more, and names that may have been imported.
    pub(crate) paths: Vec<Path>,
    pub(crate) defines: Vec<String>,
}

/// A name that a `use` brings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) path: Path,
    /// The name in this module, or `*`.
    pub(crate) name: String,
    /// `pub use` of any visibility: other files see the name here.
    pub(crate) is_export: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// A field of a struct with its visibility, empty if it is private.
#[derive(Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) visibility: String,
    pub(crate) line: usize,
}

impl Source {
    /// Reads a file without its tests.
    pub(crate) fn parse(text: &str) -> Self {
        let mut source = Self::default();
        source.read(&trees(text));
        source
    }

    fn read(&mut self, trees: &[TokenTree]) {
        let mut at = 0;
        let mut is_export = false;
        while let Some(tree) = trees.get(at) {
            let word = ident(tree);
            let was_export = std::mem::take(&mut is_export);
            at = match (tree, word.as_str()) {
                _ if is_test_attribute(&trees[at..]) => end_of_item(trees, at + 2),
                (_, "pub") => {
                    is_export = true;
                    at + 1 + usize::from(is_group(trees.get(at + 1), Delimiter::Parenthesis))
                }
                (_, "use") if !trees.get(at + 1).is_some_and(|next| is_punct(next, '<')) => {
                    let end = end_of_item(trees, at);
                    self.read_use(&trees[at + 1..end - 1], Vec::new(), was_export);
                    end
                }
                (_, "mod") => self.read_module(trees, at),
                (_, "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static") => {
                    let name = trees.get(at + 1).map(ident).filter(|name| !name.is_empty());
                    let is_function = word == "fn" && name.is_some();
                    self.defines.extend(name);
                    at + 1 + usize::from(is_function)
                }
                (TokenTree::Group(group), _) => {
                    self.read(&group.stream().into_iter().collect::<Vec<_>>());
                    at + 1
                }
                (TokenTree::Ident(_), _) => self.read_path(trees, at),
                _ => at + 1,
            };
        }
    }

    /// Reads `name;` or `name { … }` after `mod`. Returns the place behind it.
    fn read_module(&mut self, trees: &[TokenTree], at: usize) -> usize {
        let Some(name) = trees.get(at + 1).map(ident) else { return at + 1 };
        match trees.get(at + 2) {
            Some(TokenTree::Group(group)) => {
                let mut block = Self::default();
                block.read(&group.stream().into_iter().collect::<Vec<_>>());
                self.blocks.push((name, block));
            }
            _ => self.files.push(name),
        }
        at + 3
    }

    /// Reads a tree of `use`, without the word itself and its semicolon.
    fn read_use(&mut self, trees: &[TokenTree], mut segments: Vec<String>, is_export: bool) {
        let mut name = None;
        let mut at = 0;
        let line = trees.first().map_or(0, line_of);
        while let Some(tree) = trees.get(at) {
            match tree {
                TokenTree::Group(group) => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    for part in inner.split(|tree| is_punct(tree, ',')).filter(|part| !part.is_empty()) {
                        self.read_use(part, segments.clone(), is_export);
                    }
                    return;
                }
                TokenTree::Ident(word) if word == "as" => {
                    name = trees.get(at + 1).map(ident);
                    break;
                }
                // `a::{self}` is `a`.
                TokenTree::Ident(word) if word == "self" && !segments.is_empty() => {}
                TokenTree::Ident(word) => segments.push(word.to_string()),
                _ if is_punct(tree, '*') => name = Some("*".to_owned()),
                _ => {}
            }
            at += 1;
        }
        let name = name.or_else(|| segments.last().cloned()).unwrap_or_default();
        self.uses.push(Use { path: Path { segments, line }, name, is_export });
    }

    /// Reads a path in the code. Returns the place behind it.
    fn read_path(&mut self, trees: &[TokenTree], start: usize) -> usize {
        let mut segments = vec![ident(&trees[start])];
        let mut at = start + 1;
        while is_colons(&trees[at..]) {
            let Some(TokenTree::Ident(word)) = trees.get(at + 2) else { break };
            segments.push(word.to_string());
            at += 3;
        }
        let is_member = start > 0 && is_punct(&trees[start - 1], '.');
        let goes_on = start > 1 && is_colons(&trees[start - 2..]);
        let is_called = is_group(trees.get(at), Delimiter::Parenthesis);
        let may_be_imported = segments[0].starts_with(char::is_uppercase) || is_called;
        if !is_member && !goes_on && (segments.len() > 1 || may_be_imported) {
            self.paths.push(Path { segments, line: line_of(&trees[start]) });
        }
        at
    }
}

/// Returns the fields of the struct of that name, or `None` if the file does not declare it.
pub(crate) fn fields(text: &str, name: &str) -> Option<Vec<Field>> {
    let trees = trees(text);
    let at = trees.windows(2).position(|two| ident(&two[0]) == "struct" && ident(&two[1]) == name)?;
    let group = trees[at..].iter().find_map(|tree| match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    })?;
    let body: Vec<_> = group.stream().into_iter().collect();
    let mut found = Vec::new();
    let (mut visibility, mut depth) = (String::new(), 0);
    for (at, tree) in body.iter().enumerate() {
        let is_arrow = at > 0 && is_punct(&body[at - 1], '-');
        match tree {
            _ if is_punct(tree, '<') => depth += 1,
            _ if is_punct(tree, '>') && !is_arrow => depth -= 1,
            _ if depth > 0 => {}
            TokenTree::Ident(word) if word == "pub" => {
                let within = body.get(at + 1).filter(|next| is_group(Some(next), Delimiter::Parenthesis));
                visibility = format!("pub{}", within.map_or(String::new(), ToString::to_string));
            }
            TokenTree::Ident(word) if is_field_name(&body, at) => {
                let visibility = std::mem::take(&mut visibility);
                found.push(Field { name: word.to_string(), visibility, line: line_of(tree) });
            }
            _ => {}
        }
    }
    Some(found)
}

fn is_field_name(body: &[TokenTree], at: usize) -> bool {
    let is_colon = matches!(body.get(at + 1), Some(TokenTree::Punct(p)) if p.as_char() == ':' && p.spacing() == Spacing::Alone);
    is_colon && !(at > 0 && is_punct(&body[at - 1], ':'))
}

fn trees(text: &str) -> Vec<TokenTree> {
    TokenStream::from_str(text).expect("Rust that the compiler has accepted").into_iter().collect()
}

/// Returns true for `#[cfg(test)]` and `#[cfg(all(test, …))]`.
fn is_test_attribute(trees: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = trees else { return false };
    let text = attribute.stream().to_string().replace(' ', "");
    is_punct(hash, '#') && (text == "cfg(test)" || text.starts_with("cfg(all(test,") || text == "test")
}

/// Returns the place behind the item that begins at `at`: behind its semicolon or its braces.
fn end_of_item(trees: &[TokenTree], at: usize) -> usize {
    let is_use = trees[at..].iter().take(4).any(|tree| ident(tree) == "use");
    let is_end = |tree: &TokenTree| {
        is_punct(tree, ';')
            || is_punct(tree, ',') && !is_use
            || !is_use && is_group(Some(tree), Delimiter::Brace)
    };
    trees[at..].iter().position(is_end).map_or(trees.len(), |length| at + length + 1)
}

fn ident(tree: &TokenTree) -> String {
    if let TokenTree::Ident(word) = tree { word.to_string() } else { String::new() }
}

fn line_of(tree: &TokenTree) -> usize {
    tree.span().start().line
}

fn is_punct(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_colons(trees: &[TokenTree]) -> bool {
    trees.len() > 1 && is_punct(&trees[0], ':') && is_punct(&trees[1], ':')
}

fn is_group(tree: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(tree, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str, line: usize) -> Path {
        Path { segments: text.split("::").map(str::to_owned).collect(), line }
    }

    #[test]
    fn groups_renames_and_globs_of_a_use_are_read() {
        let source = Source::parse("use crate::a::{self, B as C,\n d::{E, f::*}};\npub(crate) use super::G;");
        let names: Vec<_> = source.uses.iter().map(|one| (one.name.as_str(), one.is_export)).collect();
        assert_eq!(names, [("a", false), ("C", false), ("E", false), ("*", false), ("G", true)]);
        assert_eq!(source.uses[1].path, path("crate::a::B", 1));
        assert_eq!(source.uses[3].path, path("crate::a::d::f", 2));
    }

    #[test]
    fn paths_are_read_in_code_and_in_macros() {
        let source =
            Source::parse("fn f(x: crate::a::B) {\n matches!(x.len(), super::c::D); Name::<E>::new() }");
        let wanted = [path("crate::a::B", 1), path("super::c::D", 2), path("Name", 2), path("E", 2)];
        assert_eq!(source.paths, wanted);
        assert_eq!(source.defines, ["f"]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "mod a; #[cfg(test)] mod b; #[cfg(test)] mod c { use crate::D; } #[cfg(test)] use crate::{E, F}; use crate::G;";
        let source = Source::parse(text);
        assert_eq!((source.files, source.blocks.len()), (vec!["a".to_owned()], 0));
        assert_eq!(source.uses.len(), 1);
    }

    #[test]
    fn fields_are_read_with_their_visibility() {
        let text = "pub struct A<T> {\n /// Text: of a comment.\n pub(in crate::a) b: Map<u8, c::D>,\n e: fn(u8) -> [T; 2],\n pub f: T }";
        let found = fields(text, "A").expect("the struct");
        let read: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.visibility.as_str(), one.line)).collect();
        assert_eq!(read, [("b", "pub(in crate :: a)", 3), ("e", "", 4), ("f", "pub", 5)]);
        assert_eq!(fields(text, "B"), None);
    }
}
