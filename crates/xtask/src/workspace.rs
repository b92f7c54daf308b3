//! Checks of the whole workspace with `cargo metadata`: the crate graph in ARCHITECTURE.md, the licences of linked
//! crates, and crates with two versions.

use pintle_value::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Licences that are compatible with a program under Apache-2.0.
const LICENCES: [&str; 8] =
    ["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0+", "Unicode-3.0", "Unlicense", "Zlib"];

/// Crates that dependencies need in two versions.
const TWO_VERSIONS: [(&str, &str); 5] = [
    ("bitflags", "macros without code of their own; the sampling profiler is on the older one"),
    ("getrandom", "ring and the jobserver of the build; neither is linked on Linux"),
    ("syn", "macros that run while compiling only"),
    ("untrusted", "aws-lc-rs and rustls-webpki each have their own"),
    ("windows-sys", "not compiled on Linux"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn metadata(options: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["metadata", "--format-version=1", "--locked"]).args(options);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    json::parse(&output.stdout).unwrap().value
}

/// The crates of the workspace, each with its dependencies outside of tests.
fn real_graph() -> BTreeMap<String, BTreeSet<String>> {
    let short = |name: &str| name.strip_prefix("pintle-").unwrap_or(name).to_string();
    let metadata = metadata(&["--no-deps"]);
    let needs = |package: &Value| {
        let dependencies = package.items_at(&["dependencies"]).iter();
        let ours =
            dependencies.filter(|d| d.get("path").is_some() && d.get("kind").is_none_or(Value::is_null));
        ours.map(|d| short(d.str_at(&["name"]))).collect()
    };
    let packages = metadata.items_at(&["packages"]).iter();
    packages.map(|package| (short(package.str_at(&["name"])), needs(package))).collect()
}

/// The lines `crate: others` below the heading in ARCHITECTURE.md.
fn documented_graph() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("## Crate dependencies\n").expect("the section on crate dependencies");
    let lines = section.lines().take_while(|line| !line.starts_with("## "));
    let entries = lines.filter_map(|line| line.strip_prefix("    ")?.split_once(':'));
    entries
        .map(|(name, needs)| (name.to_string(), needs.split_whitespace().map(str::to_string).collect()))
        .collect()
}

#[test]
fn the_crate_graph_is_as_documented() {
    let (real, documented) = (real_graph(), documented_graph());
    let names: BTreeSet<_> = real.keys().chain(documented.keys()).collect();
    for name in names {
        assert_eq!(real.get(name), documented.get(name), "what {name} needs, in fact and in ARCHITECTURE.md");
    }
}

/// Whether the licences above satisfy a licence expression.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let any = |text: &str| text.split(" OR ").any(|one| LICENCES.contains(&one.trim()));
    expression.split(" AND ").all(any)
}

#[test]
fn licences_are_those_we_may_ship() {
    for (expression, allowed) in [
        ("MIT", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0 OR MIT", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression), allowed, "{expression}");
    }
    let version = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = metadata(&["--filter-platform", host]);
    for package in metadata.items_at(&["packages"]) {
        let (name, licence) = (package.str_at(&["name"]), package.str_at(&["license"]));
        assert!(is_allowed(licence), "{name} is under {licence:?}");
    }
}

#[test]
fn crates_are_there_in_one_version() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let names: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    let twice: BTreeSet<&str> =
        names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].trim_matches('"')).collect();
    let known: BTreeSet<&str> = TWO_VERSIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(twice, known, "crates in two versions, in fact and as listed with a reason");
}
