//! The documents of manifests: files, folders and stdin, taken apart where YAML or lists hold several.

use bytes::Bytes;
use pintle_value::{Value, json, yaml};
use std::io::Read;
use std::path::Path;

/// The most bytes of all manifests together that are read.
const BYTES_MAX: u64 = 256 << 20;
/// How deep folders are looked into.
const DEPTH_MAX: usize = 16;

/// One object of a manifest.
pub(super) struct Document {
    /// The file.
    pub(super) file: String,
    /// The object.
    pub(super) tree: Value,
    /// As it is written.
    pub(super) body: Bytes,
}

impl Document {
    pub(super) fn is_definition(&self) -> bool {
        self.tree.str_at(&["kind"]) == "CustomResourceDefinition"
            && self.tree.str_at(&["apiVersion"]).starts_with("apiextensions.k8s.io/")
    }
}

/// Reads all documents. The error is one line.
pub(super) fn read(files: &[String]) -> Result<Vec<Document>, String> {
    let mut out = Vec::new();
    let mut left = BYTES_MAX;
    for file in files {
        if file == "-" {
            let mut text = Vec::new();
            let read = std::io::stdin().take(left).read_to_end(&mut text);
            read.map_err(|error| format!("cannot read stdin: {error}"))?;
            add(file, &text, &mut out)?;
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
    let shown = path.display().to_string();
    let failed = |error: std::io::Error| format!("cannot read {shown}: {error}");
    if path.is_dir() && depth > 0 {
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            inside.push(entry.map_err(failed)?.path());
        }
        inside.sort();
        return inside.iter().try_for_each(|path| read_path(path, false, depth - 1, left, out));
    }
    let is_manifest = path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
    if !named && !is_manifest {
        return Ok(());
    }
    let text = std::fs::read(path).map_err(failed)?;
    *left = left
        .checked_sub(text.len() as u64)
        .ok_or_else(|| format!("{shown}: more than {BYTES_MAX} bytes in all"))?;
    add(&shown, &text, out)
}

fn add(file: &str, text: &[u8], out: &mut Vec<Document>) -> Result<(), String> {
    for body in split(text) {
        let tree = yaml::parse(&body).map_err(|error| format!("{file}: {error}"))?.value;
        if tree.is_null() {
            continue;
        }
        let is_list = tree.str_at(&["kind"]) == "List" && tree.str_at(&["apiVersion"]) == "v1";
        if !is_list {
            out.push(Document { file: file.to_string(), tree, body });
            continue;
        }
        for item in tree.items_at(&["items"]) {
            let mut body = Vec::new();
            json::print(item, &mut body);
            out.push(Document { file: file.to_string(), tree: item.clone(), body: body.into() });
        }
    }
    Ok(())
}

/// The documents of a YAML stream: lines of three dashes stand between them.
fn split(text: &[u8]) -> Vec<Bytes> {
    let mut out = vec![Vec::new()];
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let begins = line.trim_ascii_end() == b"---" || line.starts_with(b"--- ");
        if begins {
            out.push(line.get(3..).unwrap_or_default().to_vec());
        } else if let Some(last) = out.last_mut() {
            last.extend_from_slice(line);
        }
    }
    out.into_iter().filter(|document| !document.trim_ascii().is_empty()).map(Bytes::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_lists_are_taken_apart() {
        let text = "# first\nkind: A\n---\nkind: B\ntext: |\n  ---x\n--- \n---\napiVersion: v1\nkind: List\nitems: [{kind: C}, {kind: D}]\n";
        let mut out = Vec::new();
        add("f", text.as_bytes(), &mut out).unwrap();
        let kinds: Vec<&str> = out.iter().map(|d| d.tree.str_at(&["kind"])).collect();
        assert_eq!(kinds, ["A", "B", "C", "D"]);
        assert!(add("f", b"a: [", &mut out).unwrap_err().starts_with("f: yaml: "));
    }
}
