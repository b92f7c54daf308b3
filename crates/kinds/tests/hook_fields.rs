//! Fields that hooks read by name exist: a misspelt one would silently be absent.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashSet;
use std::path::Path;

/// Functions that take an object and the name of one of its fields.
const READERS: [&str; 10] = [
    "text(",
    "opt_text(",
    "int(",
    "opt_int(",
    "flag(",
    "opt_flag(",
    "list(",
    "texts(",
    "member(",
    "nonnegative_field(",
];
/// Fields of types that the table does not have: metrics in annotations of autoscaling/v1.
const ELSEWHERE: [&str; 2] = ["targetAverageUtilization", "targetValue"];

fn sources(folder: &Path, out: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or("").to_string();
            out.push((path.display().to_string(), code));
        }
    }
}

#[test]
fn hooks_name_fields_of_the_type_table() {
    let table = include_str!("../data/types.txt");
    let members = table.lines().filter_map(|line| line.strip_prefix(' '));
    let known: HashSet<&str> = members.filter_map(|line| line.split(' ').next()).collect();
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut checked = 0;
    let mut unknown = Vec::new();
    for (path, code) in &files {
        for reader in READERS {
            for (at, _) in code.match_indices(reader) {
                let Some(call) = code.get(at + reader.len()..) else { continue };
                let arguments = call.split(')').next().unwrap_or("");
                let Some((_, name)) = arguments.split_once(", \"") else { continue };
                let Some((name, "")) = name.split_once('"') else { continue };
                checked += 1;
                if !known.contains(name) && !ELSEWHERE.contains(&name) {
                    unknown.push(format!("{path}: {reader}…, \"{name}\")"));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(checked > 500, "only {checked} fields found");
}
