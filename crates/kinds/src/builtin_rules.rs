//! Parses the table of rules, `data/rules.txt`.

use crate::kind::UNSUPPORTED_LABEL;
use crate::{Generation, ImmutableField, Keep, MetadataOnUpdate, Rules, SelectableField, Strategy};
use pintle_value::{Str, json};
use std::collections::HashMap;

/// A row of the table of rules.
pub(crate) struct Row {
    /// The rules of updates and deletions.
    pub(crate) rules: Rules,
    /// How writes change the parts of an object.
    pub(crate) strategy: Strategy,
    /// The path of its objects in the store, or "" for its plural.
    pub(crate) prefix: &'static str,
    /// The labels that field selectors support.
    pub(crate) select: Vec<SelectableField>,
    /// Whether field selectors support `metadata.namespace`.
    pub(crate) namespace: bool,
    /// The error for other labels.
    pub(crate) unsupported: &'static str,
    /// The name of each deprecated version with the end of its warning.
    pub(crate) deprecated: Vec<&'static str>,
    /// The feature gate without which it is not served, or "".
    pub(crate) gate: &'static str,
}

/// The strategy of most built-in kinds.
pub(crate) fn usual_strategy() -> Strategy {
    Strategy { keep: Keep::Everything, ..Strategy::default() }
}

/// Reads the table: rows by resource, as `pods` or `deployments.apps`.
pub(crate) fn read(table: &'static str) -> HashMap<&'static str, Row> {
    let mut rows: HashMap<&'static str, Row> = HashMap::new();
    let mut current = "";
    for line in table.lines().filter(|l| !l.starts_with('#')) {
        match line.strip_prefix(' ') {
            None => {
                let (name, row) = read_row(line);
                rows.insert(name, row);
                current = name;
            }
            Some(more) => {
                if let Some(row) = rows.get_mut(current) {
                    add_detail(row, more);
                }
            }
        }
    }
    rows
}

fn read_row(line: &'static str) -> (&'static str, Row) {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let mut row = Row {
        rules: Rules::default(),
        strategy: usual_strategy(),
        prefix: "",
        select: Vec::new(),
        namespace: true,
        unsupported: UNSUPPORTED_LABEL,
        deprecated: Vec::new(),
        gate: "",
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("create", _) => row.rules.create_on_update = true,
            ("statuscreate", _) => row.rules.create_on_status_apply = true,
            ("conditional", _) => row.rules.unconditional_update = false,
            ("returns", _) => row.rules.delete_returns_object = true,
            ("orphan", _) => row.rules.orphan_by_default = true,
            ("uncached", _) => row.rules.uncached = true,
            ("safe", _) => row.rules.unsafe_deletion_unsupported = true,
            ("nogc", _) => row.rules.gc_unsupported = true,
            ("gen", "counted") => row.rules.generation = Generation::Counted,
            ("gen", "exact") => row.rules.generation = Generation::CountedExactly,
            ("gen", "fixed") => row.rules.generation = Generation::Fixed,
            ("gen", "zero") => row.rules.generation = Generation::CountedFromZero,
            ("prefix", path) => row.prefix = path,
            ("gate", name) => row.gate = name,
            ("status", json) => row.strategy.status = json::parse(json.as_bytes()).ok().map(|p| p.value),
            ("keep", "spec") => row.strategy.keep = Keep::Spec,
            ("keep", "metadata") => row.strategy.keep = Keep::Metadata,
            ("keep", _) => row.strategy.keep = Keep::Nothing,
            ("pod", path) => row.strategy.pod_spec = path.split('.').collect(),
            ("metadata", "again") => row.rules.metadata_on_update = MetadataOnUpdate::AsChangeThenAsNew,
            ("metadata", "last") => row.rules.metadata_on_update = MetadataOnUpdate::AsNewThenAsChange,
            ("metadata", _) => row.rules.metadata_on_update = MetadataOnUpdate::AsNew,
            ("finalizers", _) => row.rules.standard_finalizers = false,
            _ => {}
        }
    }
    (name, row)
}

fn add_detail(row: &mut Row, line: &'static str) {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("select", facts) => {
            let mut words = facts.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let (label, path, unset) = (word(), word(), word());
            let path = path.split('.').filter(|p| !p.is_empty()).map(Str::from).collect();
            row.select.push(SelectableField { label: Str::from(label), path, unset: Str::from(unset) });
        }
        ("immutable", facts) => {
            let mut words = facts.split(' ');
            let name = words.next().unwrap_or_default();
            let mut field =
                ImmutableField { keys: name.split('.').collect(), error_path: name, struct_type: None };
            for word in words {
                match word.strip_prefix("as=") {
                    Some(name) => field.error_path = name,
                    None => field.struct_type = Some(word),
                }
            }
            row.strategy.immutable.push(field);
        }
        ("resets", facts) => {
            let mut words = facts.split(' ');
            let part = words.next().unwrap_or_default();
            row.strategy.resets.push((part, words.map(|path| path.split('.').collect()).collect()));
        }
        ("nonamespace", _) => row.namespace = false,
        ("unsupported", text) => row.unsupported = text,
        ("deprecated", text) => row.deprecated.push(text),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_rules_are_known_and_states_are_json() {
        const RULES: &str = include_str!("../data/rules.txt");
        const FLAGS: [&str; 8] =
            ["create", "statuscreate", "conditional", "returns", "orphan", "safe", "nogc", "uncached"];
        const KEYS: [&str; 8] = ["gen", "prefix", "gate", "status", "keep", "pod", "metadata", "finalizers"];
        for line in RULES.lines().filter(|line| !line.starts_with(['#', ' '])) {
            for word in line.split(' ').skip(1) {
                let known = match word.split_once('=') {
                    Some((key, _)) => KEYS.contains(&key),
                    None => FLAGS.contains(&word),
                };
                assert!(known, "{line}");
            }
            let (_, row) = read_row(line);
            assert_eq!(line.contains(" status="), row.strategy.status.is_some(), "{line}");
        }
    }

    #[test]
    fn immutable_fields_are_those_of_the_table() {
        for (plural, new, old, errors) in [
            (
                "storageclasses",
                r#"{"provisioner":"b"}"#,
                r#"{"provisioner":"a"}"#,
                r#"provisioner: Invalid value: "b": field is immutable"#,
            ),
            (
                "csidrivers",
                r#"{"spec":{"attachRequired":false}}"#,
                r#"{"spec":{"attachRequired":true}}"#,
                "spec.attachedRequired: Invalid value: false: field is immutable",
            ),
            (
                "volumeattachments",
                r#"{"spec":{"nodeName":"b"}}"#,
                r#"{"spec":{"nodeName":"a"}}"#,
                r#"spec: Invalid value: {"Attacher":"","Source":{"PersistentVolumeName":null,"InlineVolumeSpec":null},"NodeName":"b"}: field is immutable"#,
            ),
            ("csistoragecapacities", r#"{"nodeTopology":{}}"#, r#"{"nodeTopology":{}}"#, "[]"),
        ] {
            let kinds = crate::builtin().kinds;
            let kind = kinds.iter().find(|kind| kind.plural == plural).unwrap();
            let mut found = pintle_meta::FieldErrors::new();
            kind.validate_immutable_fields(
                &crate::testing::tree(new),
                &crate::testing::tree(old),
                &mut found,
            );
            assert_eq!(found.aggregate_message(), errors, "{plural}");
        }
    }

    #[test]
    fn strategies_reset_and_keep_what_the_table_says() {
        let kinds = crate::builtin().kinds;
        let kind = kinds.iter().find(|kind| kind.kind == "Deployment").unwrap();
        let tree = crate::testing::tree;
        let mut object = tree(r#"{"spec":{"replicas":1},"status":{"replicas":7}}"#);
        kind.prepare_create(kind.hooks, &mut object);
        assert_eq!(object, tree(r#"{"spec":{"replicas":1},"status":{}}"#));
        let old = tree(r#"{"spec":{"replicas":1},"status":{"replicas":1}}"#);
        let mut new = tree(r#"{"spec":{"replicas":2},"status":{"replicas":2}}"#);
        kind.prepare_update(kind.hooks, crate::Scope::Sub("status"), &mut new, &old);
        assert_eq!(new, tree(r#"{"spec":{"replicas":1},"status":{"replicas":2}}"#));
        let mut new = tree(r#"{"spec":{"replicas":2},"status":{"replicas":2}}"#);
        kind.prepare_update(kind.hooks, crate::Scope::Main, &mut new, &old);
        assert_eq!(new, tree(r#"{"spec":{"replicas":2},"status":{"replicas":1}}"#));
    }
}
