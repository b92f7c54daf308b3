//! Reads the documents of manifests from files, folders and stdin, and splits YAML streams and lists. Accepts the output
//! of kustomize and Helm: comments, empty documents, notes at the end.

use bytes::Bytes;
use pintle_value::yaml::{self, Position, Positions};
use pintle_value::{Value, json};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The limit of all manifests together in bytes.
const BYTES_MAX: u64 = 256 << 20;
/// The deepest folder that is read.
const DEPTH_MAX: usize = 16;

/// One object of a manifest, or a document that cannot be read.
pub(crate) struct Document {
    /// The object; null if it cannot be read.
    pub(crate) tree: Value,
    /// The original bytes.
    pub(crate) body: Bytes,
    /// Why the document cannot be read.
    pub(crate) error: Option<String>,
    /// The document's position.
    pub(crate) place: Place,
}

/// The position of an object and its fields.
#[derive(Clone)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: String,
    /// Lines of the file before the document.
    lines_before: usize,
    /// The position of the error if the document cannot be read.
    broken_at: Option<Position>,
    positions: Option<Arc<Positions>>,
    /// The path of the object in the document: empty, or `items[0]` in a list.
    root: String,
}

impl Document {
    pub(crate) fn is_definition(&self) -> bool {
        self.tree.str_at(&["kind"]) == "CustomResourceDefinition"
            && self.tree.str_at(&["apiVersion"]).starts_with("apiextensions.k8s.io/")
    }
}

impl Place {
    /// The position of a field in the file, or of the object itself for an empty path.
    pub(crate) fn of(&self, path: &str) -> Position {
        let found = match (self.broken_at, &self.positions) {
            (Some(position), _) => position,
            (None, Some(positions)) if self.root.is_empty() => positions.find(path),
            (None, Some(positions)) if path.is_empty() => positions.find(&self.root),
            (None, Some(positions)) => positions.find(&format!("{}.{path}", self.root)),
            (None, None) => Position { line: 1, column: 1 },
        };
        Position { line: found.line.saturating_add(self.lines_before), ..found }
    }

    /// The position of a line of the document in the file.
    pub(crate) fn of_line(&self, line: usize) -> Position {
        Position { line: line.saturating_add(self.lines_before), column: 1 }
    }
}

/// Reads all documents. The error is for a file that cannot be read at all.
pub(crate) fn read(files: &[String]) -> Result<Vec<Document>, String> {
    let mut out = Vec::new();
    let mut left = BYTES_MAX;
    for file in files {
        if file == "-" {
            let mut text = Vec::new();
            let read = std::io::stdin().take(left).read_to_end(&mut text);
            read.map_err(|error| format!("cannot read stdin: {error}"))?;
            add_documents("stdin", &text, &mut out);
        } else {
            read_path(Path::new(file), true, DEPTH_MAX, &mut left, &mut out)?;
        }
    }
    Ok(out)
}

fn read_path(
    path: &Path,
    named: bool,
    depth: usize,
    left: &mut u64,
    out: &mut Vec<Document>,
) -> Result<(), String> {
    let file = path.display().to_string();
    let failed = |error: std::io::Error| format!("cannot read {file}: {error}");
    if path.is_dir() && depth > 0 {
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            inside.push(entry.map_err(failed)?.path());
        }
        inside.sort();
        return inside.iter().try_for_each(|path| read_path(path, false, depth.saturating_sub(1), left, out));
    }
    let is_manifest = path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
    if !named && !is_manifest {
        return Ok(());
    }
    let text = std::fs::read(path).map_err(failed)?;
    *left = left
        .checked_sub(text.len() as u64)
        .ok_or_else(|| format!("{file}: more than {BYTES_MAX} bytes in all"))?;
    add_documents(&file, &text, out);
    Ok(())
}

fn add_documents(file: &str, text: &[u8], out: &mut Vec<Document>) {
    for (lines_before, body) in split(text) {
        let mut place = Place {
            file: file.to_string(),
            lines_before,
            broken_at: None,
            positions: Positions::of(&body).ok().map(Arc::new),
            root: String::new(),
        };
        let tree = match yaml::parse(&body) {
            Ok(parsed) => parsed.value,
            Err(error) => {
                let (position, mut why) = without_line(&error.to_string());
                if body.windows(2).any(|pair| pair == b"{{") {
                    why.push_str(" (is it a template? render it first: helm template, kustomize build)");
                }
                place.broken_at = Some(position);
                out.push(Document { tree: Value::Null, body, error: Some(why), place });
                continue;
            }
        };
        if tree.is_null() {
            continue;
        }
        let item_kind = tree.str_at(&["kind"]).strip_suffix("List");
        let (Some(item_kind), Some(Value::Array(items))) = (item_kind, tree.get("items")) else {
            out.push(Document { tree, body, error: None, place });
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            let item = typed_item(item, tree.str_at(&["apiVersion"]), item_kind);
            let body = json::bytes(&item);
            let place = Place { root: format!("items[{index}]"), ..place.clone() };
            out.push(Document { tree: item, body: body.into(), error: None, place });
        }
    }
}

/// An item of a list. The API returns lists such as PodList, whose items have no kind and version of their own.
fn typed_item(item: &Value, version: &str, kind: &str) -> Value {
    let mut item = item.clone();
    if item.as_object().is_some() && !kind.is_empty() {
        for (field, inherited) in [("apiVersion", version), ("kind", kind)] {
            if item.str_at(&[field]).is_empty() {
                item.set_at(&[field], inherited.into());
            }
        }
    }
    item
}

/// Removes the line from a YAML error (`yaml: line 3: …`).
fn without_line(error: &str) -> (Position, String) {
    let line = error.strip_prefix("yaml: line ").and_then(|rest| rest.split_once(": "));
    match line.and_then(|(line, why)| Some((line.parse().ok()?, why))) {
        Some((line, why)) => (Position { line, column: 1 }, format!("yaml: {why}")),
        None => (Position { line: 1, column: 1 }, error.to_string()),
    }
}

/// Splits a YAML stream into documents, each with the number of lines before it. Lines of three dashes separate them. A
/// line `NOTES:` ends the stream: Helm prints a chart's notes after its objects.
fn split(text: &[u8]) -> Vec<(usize, Bytes)> {
    let mut out: Vec<(usize, Vec<u8>)> = vec![(0, Vec::new())];
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let content = line.trim_ascii_end();
        if content == b"NOTES:" {
            break;
        }
        if content == b"---" {
            out.push((number.saturating_add(1), Vec::new()));
        } else if line.starts_with(b"--- ") {
            // Replace the marker by blanks, so that columns remain those of the file.
            out.push((number, [b"   ", line.get(3..).unwrap_or_default()].concat()));
        } else if let Some((_, last)) = out.last_mut() {
            last.extend_from_slice(line);
        }
    }
    let is_empty = |document: &[u8]| document.trim_ascii().is_empty();
    out.into_iter().filter(|(_, document)| !is_empty(document)).map(|(n, d)| (n, Bytes::from(d))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Vec<Document> {
        let mut out = Vec::new();
        add_documents("f", text.as_bytes(), &mut out);
        out
    }

    #[test]
    fn streams_and_lists_are_taken_apart() {
        let text = "# first\nkind: A\n---\nkind: B\ntext: |\n  ---x\n--- \n---\napiVersion: v1\nkind: List\nitems: [{kind: C}, {kind: D}]\n---\n# Source: empty.yaml\n---\n--- {kind: E}\nNOTES:\n1. Get the URL: [by running\n";
        let out = read_text(text);
        let places: Vec<(&str, usize, usize)> = out
            .iter()
            .map(|d| (d.tree.str_at(&["kind"]), d.place.of("kind").line, d.place.of("kind").column))
            .collect();
        assert_eq!(places, [("A", 2, 1), ("B", 4, 1), ("C", 11, 10), ("D", 11, 21), ("E", 15, 6)]);
    }

    #[test]
    fn items_of_a_list_of_one_kind_have_its_kind() {
        let text = "kind: ConfigMapList\napiVersion: v1\nitems:\n- metadata: {name: a}\n- {kind: Secret, apiVersion: v1}\n---\nkind: AccessList\napiVersion: a.b/v1\n";
        let out = read_text(text);
        let items: Vec<(&str, &str, usize)> = out
            .iter()
            .map(|d| {
                (d.tree.str_at(&["kind"]), d.tree.str_at(&["apiVersion"]), d.place.of("metadata.name").line)
            })
            .collect();
        assert_eq!(items, [("ConfigMap", "v1", 4), ("Secret", "v1", 5), ("AccessList", "a.b/v1", 7)]);
    }

    #[test]
    fn a_broken_document_does_not_hide_the_others() {
        let out = read_text("kind: A\n---\nkind: B\nx: {{ .Values.x }}\n  y: [\n---\nkind: C\n");
        assert_eq!(out.len(), 3);
        let broken = out.get(1).unwrap();
        assert!(broken.error.as_ref().unwrap().contains("helm template"), "{:?}", broken.error);
        assert!(broken.place.of("").line >= 4, "{}", broken.place.of("").line);
    }
}
