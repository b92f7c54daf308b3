//! One fully populated object of each kind in three encodings that decode to the same object.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

use pintle_kinds::{Builtin, builtin};
use pintle_schema::{Schema, proto, typed};
use pintle_value::{json, yaml};
use std::path::{Path, PathBuf};

fn fixtures(extension: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    assert!(files.len() > 80);
    files
}

/// The schema of a file's object; its name is `group.version.Kind`.
fn schema_of(builtin: &Builtin, path: &Path) -> Schema {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let (version, kind) = name.rsplit_once('.').unwrap();
    let (group, version) = version.rsplit_once('.').unwrap();
    let api_version = if group == "core" { version.to_string() } else { format!("{group}/{version}") };
    builtin.types.by_kind(&api_version, kind).unwrap()
}

#[test]
fn json_is_written_as_it_was_read() {
    let builtin = builtin();
    for path in fixtures("json") {
        let text = std::fs::read(&path).unwrap();
        let tree = json::parse(&text).unwrap().value;
        let schema = schema_of(&builtin, &path);
        let mut strict = typed::Strict::default();
        let typed = typed::decode(&schema, tree.clone(), Some(&mut strict));
        let typed = typed.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(strict.unknown.is_empty(), "{}: {strict:?}", path.display());
        assert_eq!(typed, tree, "{}", path.display());
        let mut out = Vec::new();
        typed::encode_json(&schema, &typed, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), compact(&text), "{}", path.display());
    }
}

#[test]
fn yaml_gives_the_same_object() {
    let builtin = builtin();
    for path in fixtures("yaml") {
        let tree = yaml::parse(&std::fs::read(&path).unwrap()).unwrap().value;
        let expected = json::parse(&std::fs::read(path.with_extension("json")).unwrap()).unwrap().value;
        let typed = typed::decode(&schema_of(&builtin, &path), tree, None).unwrap();
        assert_eq!(typed, expected, "{}", path.display());
    }
}

#[test]
fn protobuf_is_read_and_written_byte_for_byte() {
    let builtin = builtin();
    for path in fixtures("pb") {
        let bytes = std::fs::read(&path).unwrap();
        let schema = schema_of(&builtin, &path);
        let envelope = proto::open(&bytes).unwrap();
        let tree = proto::decode(&schema, &envelope).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let expected = json::parse(&std::fs::read(path.with_extension("json")).unwrap()).unwrap().value;
        assert_eq!(tree, expected, "{}", path.display());
        let mut out = Vec::new();
        proto::encode(&schema, &envelope.api_version, &envelope.kind, &expected, &mut out);
        assert!(out == bytes, "{}", path.display());
    }
}

#[test]
fn damaged_protobuf_is_an_error_or_another_object_but_never_a_panic() {
    let builtin = builtin();
    for path in fixtures("pb") {
        let bytes = std::fs::read(&path).unwrap();
        let schema = schema_of(&builtin, &path);
        // A few places in each file, other ones in each, are enough here.
        for at in (bytes.len() % 97..bytes.len()).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[at] = damaged[at].wrapping_add(0x55);
            for damaged in [&damaged[..], &bytes[..at]] {
                if let Ok(envelope) = proto::open(damaged) {
                    _ = proto::decode(&schema, &envelope);
                }
            }
        }
    }
}

/// The text without the white space between its tokens; the order of members stays.
fn compact(text: &[u8]) -> String {
    let (mut out, mut quoted, mut escaped) = (String::new(), false, false);
    for c in String::from_utf8(text.to_vec()).unwrap().chars() {
        if !quoted && c.is_whitespace() {
            continue;
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}
