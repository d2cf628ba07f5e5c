//! Circles of files that import each other: the strongly connected components of a crate's imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::Import;

/// Returns the circles of two files and more, each sorted, with the imports that close it.
pub(crate) fn circles(imports: &[Import]) -> Vec<(Vec<String>, Vec<&Import>)> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        next.entry(&import.from).or_default().insert(&import.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|from| (*from, reach(&next, from))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, targets) in &reached {
        let returns = |to: &&&str| reached.get(**to).is_some_and(|back| back.contains(from));
        let circle: Vec<_> = targets.iter().filter(returns).map(ToString::to_string).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found
        .into_iter()
        .map(|circle| {
            let inside = |import: &&Import| circle.contains(&import.from) && circle.contains(&import.to);
            let closing = imports.iter().filter(inside).collect();
            (circle, closing)
        })
        .collect()
}

fn reach<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        open.extend(next.get(file).into_iter().flatten().filter(|to| found.insert(**to)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Path;

    #[test]
    fn a_circle_has_its_files_and_no_others() {
        let import = |from: &str, to: &str| Import {
            from: from.to_owned(),
            to: to.to_owned(),
            path: Path { segments: Vec::new(), line: 0 },
        };
        let all = [import("a", "b"), import("b", "c"), import("c", "a"), import("c", "d"), import("e", "a")];
        let found = circles(&all);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, ["a", "b", "c"]);
        assert_eq!(found[0].1.len(), 3);
        assert!(circles(&all[1..]).is_empty());
    }
}
