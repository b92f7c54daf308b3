//! Event: converts between the two forms, and selects the rules for a request.

use super::validate;
use crate::{Hooks, KindVersion, Scope};
use pintle_meta::FieldErrors;
use pintle_schema::typed;
use pintle_value::{Str, Value};

/// Fields with other names in `events.k8s.io`: the name there, and in the core group.
const NAMES: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

pub(crate) struct Event;

impl Hooks for Event {
    fn validates_metadata(&self) -> bool {
        false
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate::validate_common(object, false, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        validate::validate_common(object, false, errors);
    }

    fn validate_create_in(&self, version: &KindVersion, object: &Value, errors: &mut FieldErrors) {
        validate::validate_common(object, is_strict(version), errors);
        if is_strict(version) {
            validate::validate_strict_create(self, object, errors);
        }
    }

    fn validate_update_in(
        &self,
        version: &KindVersion,
        _scope: Scope<'_>,
        object: &Value,
        old: &Value,
        errors: &mut FieldErrors,
    ) {
        validate::validate_common(object, is_strict(version), errors);
        if is_strict(version) {
            validate::validate_strict_update(object, old, errors);
        }
    }

    fn convert(&self, object: &mut Value, from: &KindVersion, to: &KindVersion) {
        if is_strict(from) != is_strict(to) {
            rename_fields(object, is_strict(to));
            typed::normalize(&to.schema, object);
        }
    }

    fn selectable(&self, label: &str, object: &Value) -> Option<Str> {
        if label != "source" {
            return None;
        }
        let component = object.str_at(&["source", "component"]);
        let source = if component.is_empty() { object.str_at(&["reportingComponent"]) } else { component };
        Some(source.into())
    }
}

fn is_strict(version: &KindVersion) -> bool {
    !version.group.is_empty()
}

fn rename_fields(object: &mut Value, to_strict: bool) {
    let Value::Object(map) = object else { return };
    for (strict, core) in NAMES {
        let (from, to) = if to_strict { (core, strict) } else { (strict, core) };
        if let Some(value) = map.remove(from) {
            map.insert(to, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;
    use pintle_value::json;

    #[test]
    fn forms_turn_into_each_other() {
        let kinds = crate::builtin().kinds;
        let kind = kinds.iter().find(|k| k.plural == "events").unwrap();
        let [core, strict] = kind.versions.as_slice() else { panic!() };
        let original = r#"{"apiVersion":"v1","count":2,"eventTime":null,"firstTimestamp":"2024-01-01T00:00:00Z","involvedObject":{"kind":"Pod"},"kind":"Event","lastTimestamp":null,"message":"m","metadata":{"name":"a"},"reportingComponent":"","reportingInstance":"","source":{"component":"c"}}"#;
        let mut event = tree(original);
        Event.convert(&mut event, core, strict);
        assert_eq!(
            json::text(&event),
            r#"{"apiVersion":"v1","deprecatedCount":2,"deprecatedFirstTimestamp":"2024-01-01T00:00:00Z","deprecatedLastTimestamp":null,"deprecatedSource":{"component":"c"},"eventTime":null,"kind":"Event","metadata":{"name":"a"},"note":"m","regarding":{"kind":"Pod"}}"#
        );
        Event.convert(&mut event, strict, core);
        assert_eq!(json::text(&event), original);
    }

    #[test]
    fn rules_depend_on_the_version() {
        let kinds = crate::builtin().kinds;
        let kind = kinds.iter().find(|k| k.plural == "events").unwrap();
        let event =
            tree(r#"{"metadata":{"name":"x","namespace":"n"},"involvedObject":{"namespace":"n"},"count":3}"#);
        let faults = |version: &KindVersion| {
            let mut errors = FieldErrors::new();
            Event.validate_create_in(version, &event, &mut errors);
            errors.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(faults(&kind.versions[0]), Vec::<String>::new());
        assert_eq!(
            faults(&kind.versions[1]),
            [
                "eventTime: Required value",
                r#"type: Invalid value: "": has invalid value: "#,
                r#"count: Invalid value: "": needs to be unset"#,
            ]
        );
    }
}
