//! The imports between the files of a crate. Each name is followed to the file that defines it.

use std::collections::{BTreeMap, HashMap};

use crate::source::{Path, Source};

/// The text of every file, by its path from the root of the repository.
pub(crate) type Files = BTreeMap<String, String>;

/// File `from` names an item that file `to` defines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) path: Path,
}

/// Returns the imports between the files of the crate whose root is the file `root`. A `pub use` does not count, and
/// tests do not either.
pub(crate) fn imports(files: &Files, root: &str) -> Vec<Import> {
    let mut tree = Tree { modules: Vec::new() };
    let Some(text) = files.get(root) else { return Vec::new() };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    tree.add(files, None, (root, folder), Source::parse(text));
    // Globs of globs are not followed, since no crate has any.
    let globs: Vec<_> = (0..tree.modules.len()).map(|module| tree.globs(module)).collect();
    for (module, globs) in tree.modules.iter_mut().zip(globs) {
        module.globs = globs;
    }
    tree.imports()
}

/// The modules of a crate, its root first.
struct Tree {
    modules: Vec<Module>,
}

struct Module {
    file: String,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    /// The modules of this crate whose names a `use …::*` brings.
    globs: Vec<usize>,
    source: Source,
}

impl Tree {
    /// Adds a module and those below it. `place` is its file, and the folder of its children.
    fn add(
        &mut self,
        files: &Files,
        parent: Option<usize>,
        place: (&str, &str),
        mut source: Source,
    ) -> usize {
        let (file, folder) = place;
        let index = self.modules.len();
        let names = std::mem::take(&mut source.files);
        let blocks = std::mem::take(&mut source.blocks);
        let (file_name, children, globs) = (file.to_owned(), HashMap::new(), Vec::new());
        self.modules.push(Module { file: file_name, parent, children, globs, source });
        for name in names {
            let below = format!("{folder}/{name}");
            let candidates = [format!("{below}.rs"), format!("{below}/mod.rs")];
            let Some((path, text)) = candidates.iter().find_map(|path| files.get_key_value(path)) else {
                continue;
            };
            let child = self.add(files, Some(index), (path, &below), Source::parse(text));
            self.modules[index].children.insert(name, child);
        }
        for (name, block) in blocks {
            let child = self.add(files, Some(index), (file, &format!("{folder}/{name}")), block);
            self.modules[index].children.insert(name, child);
        }
        index
    }

    fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for (index, module) in self.modules.iter().enumerate() {
            let uses = module.source.uses.iter().filter(|one| !one.is_export);
            let used = uses.map(|one| (&one.path, self.resolve(index, &one.path.segments, 0)));
            let named = module.source.paths.iter().map(|path| match path.segments.as_slice() {
                // If a module has that name, this is most likely a variable.
                [name] => (path, self.imported(index, name, &[], 0)),
                segments => (path, self.resolve(index, segments, 0)),
            });
            for (path, target) in used.chain(named) {
                let Some(target) = target else { continue };
                let (from, to) = (module.file.clone(), self.modules[target].file.clone());
                if from != to {
                    found.push(Import { from, to, path: path.clone() });
                }
            }
        }
        found
    }

    /// Returns the module that defines `path`, as named in `module`, or `None` if another crate does.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            _ if depth > 16 => None,
            "crate" => self.walk(0, rest, depth),
            "self" => self.walk(module, rest, depth),
            "super" => {
                let parent = self.modules[module].parent?;
                let again = rest.first().is_some_and(|next| next == "super");
                if again { self.resolve(parent, rest, depth) } else { self.walk(parent, rest, depth) }
            }
            name => match self.modules[module].children.get(name) {
                Some(&child) => self.walk(child, rest, depth),
                None => self.imported(module, name, rest, depth),
            },
        }
    }

    /// Does the same as [`Self::resolve`] for a path that begins inside of `module`.
    fn walk(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        if let Some(&child) = self.modules[module].children.get(first) {
            return self.walk(child, rest, depth);
        }
        let is_import = self.modules[module].source.uses.iter().any(|one| &one.name == first);
        match self.imported(module, first, rest, depth) {
            None if is_import => None,
            found => found.or(Some(module)),
        }
    }

    /// Follows the `use` that brings `name` into `module`, also a glob.
    fn imported(&self, module: usize, name: &str, rest: &[String], depth: usize) -> Option<usize> {
        let uses = &self.modules[module].source.uses;
        if let Some(one) = uses.iter().find(|one| one.name == name) {
            let whole: Vec<_> = one.path.segments.iter().chain(rest).cloned().collect();
            // A name may stand for another crate of the same name.
            return if one.path.segments == [name] { None } else { self.resolve(module, &whole, depth + 1) };
        }
        let brings = |target: usize| {
            let Module { children, source, .. } = &self.modules[target];
            children.contains_key(name)
                || source.defines.iter().any(|defined| defined == name)
                || source.uses.iter().any(|inner| inner.name == name)
        };
        let target = self.modules[module].globs.iter().copied().find(|&target| brings(target))?;
        let whole: Vec<_> = std::iter::once(name.to_owned()).chain(rest.iter().cloned()).collect();
        self.walk(target, &whole, depth + 1)
    }

    fn globs(&self, module: usize) -> Vec<usize> {
        let uses = self.modules[module].source.uses.iter().filter(|one| one.name == "*");
        let targets = uses.filter_map(|one| self.resolve(module, &one.path.segments, 0));
        targets.filter(|&target| target != module).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(files: &[(&str, &str)]) -> Vec<(String, String, usize)> {
        let files = files.iter().map(|(path, text)| (format!("c/src/{path}"), (*text).to_owned())).collect();
        let name = |path: &str| path.trim_start_matches("c/src/").to_owned();
        imports(&files, "c/src/lib.rs")
            .into_iter()
            .map(|import| (name(&import.from), name(&import.to), import.path.line))
            .collect()
    }

    fn import(from: &str, to: &str, line: usize) -> (String, String, usize) {
        (from.to_owned(), to.to_owned(), line)
    }

    #[test]
    fn a_name_is_followed_through_pub_use_to_the_file_that_defines_it() {
        let found = between(&[
            ("lib.rs", "mod a; mod b; pub use a::{Deep as Name, deep::Other};"),
            ("a.rs", "mod deep; pub(crate) use deep::*;"),
            ("a/deep.rs", "pub struct Deep; pub struct Other;"),
            ("b.rs", "use crate::Name;\nfn f() -> crate::Other { crate::a::Deep::new() }"),
        ]);
        assert_eq!(
            found,
            [import("b.rs", "a/deep.rs", 1), import("b.rs", "a/deep.rs", 2), import("b.rs", "a/deep.rs", 2)]
        );
    }

    #[test]
    fn super_reaches_names_that_the_parent_imported() {
        let found = between(&[
            ("lib.rs", "mod a; mod b; use b::B;"),
            ("a.rs", "mod c;\nuse super::B;\nfn f() { c::g() }"),
            ("a/c.rs", "use super::super::B;\nuse super::*;\nfn g(b: B) -> super::B {}"),
            ("b.rs", "pub struct B;"),
        ]);
        assert!(found.contains(&import("lib.rs", "b.rs", 1)), "{found:?}");
        assert!(found.contains(&import("a.rs", "a/c.rs", 3)), "{found:?}");
        assert!(found.contains(&import("a/c.rs", "b.rs", 1)), "{found:?}");
        assert!(found.contains(&import("a/c.rs", "a.rs", 2)), "{found:?}");
        assert!(found.contains(&import("a/c.rs", "b.rs", 3)), "{found:?}");
    }

    #[test]
    fn other_crates_and_own_names_are_no_imports() {
        let found = between(&[
            ("lib.rs", "mod a; pub use bytes::Bytes; pub use a::X;"),
            (
                "a.rs",
                "use std::fmt; use crate::Bytes; pub struct X; fn f(x: X) -> fmt::Result { Bytes::new() }",
            ),
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn a_file_that_exports_a_name_and_uses_it_imports_it() {
        let found = between(&[("lib.rs", "mod a; pub use a::X;\nfn f(x: X) {}"), ("a.rs", "pub struct X;")]);
        assert_eq!(found, [import("lib.rs", "a.rs", 2)]);
    }
}
