//! The files of `staticManifestsDir`: which are read, how they are split into documents, and which names they may use.

use aws_lc_rs::digest::{Context, SHA256};
use pintle_meta::errno::go_error_text;
use pintle_meta::field::quoted;
use pintle_value::hex;
use std::collections::BTreeMap;
use std::path::Path;

/// The suffix of names that only manifests may use.
pub const STATIC_SUFFIX: &str = ".static.k8s.io";
/// The limit of all files of a folder together.
const FOLDER_BYTES_MAX: u64 = 64 << 20;

/// The documents of a folder in the order of file names.
pub struct ManifestFolder {
    /// Each document with the path of its file.
    pub documents: Vec<(String, Vec<u8>)>,
    /// `sha256:` and the digest of all files; empty if there is nothing to read.
    pub hash: String,
}

impl ManifestFolder {
    /// Reads all files whose names end with `.yaml`, `.yml` or `.json`.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path_text = folder.display().to_string();
        let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = entries.map_err(|error| {
            let why = go_error_text(&error);
            format!("failed to read manifest directory {}: open {path_text}: {why}", quoted(&path_text))
        })?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let (mut documents, mut digest, mut left) = (Vec::new(), Context::new(&SHA256), FOLDER_BYTES_MAX);
        for entry in entries {
            let path = entry.path();
            if entry.file_type().is_ok_and(|type_| type_.is_dir()) || !is_manifest(&path) {
                continue;
            }
            let file = path.display().to_string();
            let failed = |why: &str| format!("failed to read file {}: open {file}: {why}", quoted(&file));
            let size = std::fs::metadata(&path).map_err(|error| failed(&go_error_text(&error)))?.len();
            left = left.checked_sub(size).ok_or_else(|| failed("file too large"))?;
            let text = std::fs::read(&path).map_err(|error| failed(&go_error_text(&error)))?;
            if text.is_empty() {
                continue;
            }
            digest.update(&text);
            digest.update(&[0]);
            documents.extend(split(&text).into_iter().map(|document| (file.clone(), document)));
        }
        let is_empty = left == FOLDER_BYTES_MAX;
        let hash = if is_empty {
            String::new()
        } else {
            format!("sha256:{}", hex::encode(digest.finish().as_ref()))
        };
        Ok(ManifestFolder { documents, hash })
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    matches!(extension.as_deref(), Some("yaml" | "yml" | "json"))
}

/// Splits a file into its documents, which lines that begin with `---` separate. Empty documents are dropped.
fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let mut documents = vec![Vec::new()];
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let after = line.strip_prefix(b"---").map(<[u8]>::trim_ascii);
        if after.is_some_and(|after| after.is_empty() || after.starts_with(b"#")) {
            documents.push(Vec::new());
        } else if let Some(last) = documents.last_mut() {
            last.extend_from_slice(line);
        }
    }
    let trimmed = documents.iter().map(|document| document.trim_ascii().to_vec());
    trimmed.filter(|document| !document.is_empty()).collect()
}

/// The names that were seen in a folder, each with its file.
#[derive(Default)]
pub struct ManifestNames(BTreeMap<String, String>);

impl ManifestNames {
    /// Refuses a name that is empty, lacks the suffix, or was seen before.
    pub fn add(&mut self, name: &str, file: &str) -> Result<(), String> {
        let (suffix, quoted_name, at) = (quoted(STATIC_SUFFIX), quoted(name), quoted(file));
        if name.is_empty() {
            return Err(format!("resource in file {at} must have a name"));
        }
        if !name.ends_with(STATIC_SUFFIX) {
            return Err(format!("{quoted_name} in file {at} must have a name ending with {suffix}"));
        }
        if let Some(before) = self.0.insert(name.to_string(), file.to_string()) {
            let before = quoted(&before);
            return Err(format!(
                "duplicate name {quoted_name} found in file {at} (previously seen in {before})"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_split_at_separators() {
        for (text, want) in [
            ("a: 1\n---\nb: 2\n", vec!["a: 1", "b: 2"]),
            ("---\n# only this\n--- # next\nb: 2", vec!["# only this", "b: 2"]),
            ("a: |\n  ---\n---x\n", vec!["a: |\n  ---\n---x"]),
            ("\n---\n\n", vec![]),
        ] {
            let found: Vec<String> =
                split(text.as_bytes()).iter().map(|d| String::from_utf8_lossy(d).into_owned()).collect();
            assert_eq!(found, want, "{text:?}");
        }
    }

    #[test]
    fn folders_are_read_in_the_order_of_names() {
        let folder = std::env::temp_dir().join(format!("pintle-manifests-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub.yaml")).unwrap();
        assert_eq!(ManifestFolder::read(&folder).unwrap().hash, "");
        for (name, text) in [("b.json", "{}"), ("a.YAML", "x: 1\n---\ny: 2"), ("c.txt", "z"), ("d.yml", "")] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let read = ManifestFolder::read(&folder).unwrap();
        let found: Vec<(&str, &[u8])> = read
            .documents
            .iter()
            .map(|(file, text)| (file.rsplit('/').next().unwrap(), text.as_slice()))
            .collect();
        assert_eq!(found, [("a.YAML", b"x: 1".as_slice()), ("a.YAML", b"y: 2"), ("b.json", b"{}")]);
        // The digest of `x: 1\n---\ny: 2`, a zero byte, `{}` and a zero byte.
        assert!(read.hash.starts_with("sha256:") && read.hash.len() == 71, "{}", read.hash);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(
            ManifestFolder::read(&folder).err().unwrap().starts_with("failed to read manifest directory")
        );
    }

    #[test]
    fn names_are_reserved_and_unique() {
        let mut names = ManifestNames::default();
        assert_eq!(names.add("a.static.k8s.io", "f"), Ok(()));
        for (name, why) in [
            ("", r#"resource in file "g" must have a name"#),
            ("a", r#""a" in file "g" must have a name ending with ".static.k8s.io""#),
            (
                "a.static.k8s.io",
                r#"duplicate name "a.static.k8s.io" found in file "g" (previously seen in "f")"#,
            ),
        ] {
            assert_eq!(names.add(name, "g"), Err(why.to_string()));
        }
    }
}
