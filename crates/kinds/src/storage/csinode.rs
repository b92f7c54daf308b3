//! CSINode: the drivers of a node.

use crate::error_text::Internal;
use crate::fields::{text, texts};
use crate::{Hooks, Scope, check, facts};
use pintle_meta::{FieldErrors, objectmeta};
use pintle_value::{Path, Value};
use std::collections::HashMap;

const DRIVER: &str = "storage/v1.CSINodeDriver";
const NODE_ID_BYTES_MAX: usize = 256;

pub(crate) struct CsiNode;

impl Hooks for CsiNode {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let all = Path::of("spec.drivers");
        let mut seen = check::Unique::default();
        for (i, driver) in drivers(object).iter().enumerate() {
            let path = all.index(i);
            let (name, id) = (text(driver, "name"), text(driver, "nodeID"));
            facts::check_fields(driver, DRIVER, &["name", "nodeID"], &path, errors);
            if id.len() > NODE_ID_BYTES_MAX {
                let detail = format!("must be {NODE_ID_BYTES_MAX} characters or less");
                errors.invalid(&path.field("nodeID"), id, &detail);
            }
            facts::check_fields(driver, DRIVER, &["allocatable"], &path, errors);
            seen.check(name, &path.field("name"), name, errors);
            validate_topology_keys(driver, &path, errors);
        }
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        self.validate_create(object, errors);
        let mut by_name: HashMap<&str, Vec<&Value>> = HashMap::new();
        for after in drivers(object) {
            by_name.entry(text(after, "name")).or_default().push(after);
        }
        for before in drivers(old) {
            for after in by_name.get(text(before, "name")).into_iter().flatten() {
                let same = ["nodeID", "topologyKeys"].iter().all(|f| before.get(f) == after.get(f));
                if !same {
                    let mut after = (*after).clone();
                    after.remove_at(&["allocatable"]);
                    let error_text = Internal(Some(&after), DRIVER);
                    errors.invalid(&Path::of("spec.drivers"), error_text, objectmeta::IMMUTABLE);
                }
            }
        }
    }
}

fn drivers(object: &Value) -> &[Value] {
    object.items_at(&["spec", "drivers"])
}

fn validate_topology_keys(driver: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = check::Unique::default();
    for key in texts(driver, "topologyKeys") {
        if key.is_empty() {
            errors.required(path, "");
        }
        seen.check(key, path, key, errors);
        check::qualified_name(path, key, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::updated;

    #[test]
    fn a_driver_stays_but_for_its_count() {
        let with = |driver: &str| format!(r#"{{"metadata":{{"name":"n"}},"spec":{{"drivers":[{driver}]}}}}"#);
        let old = with(r#"{"name":"d","nodeID":"i","allocatable":{"count":1}}"#);
        assert_eq!(
            updated(
                &CsiNode,
                Scope::Main,
                &with(r#"{"name":"d","nodeID":"j","allocatable":{"count":2}}"#),
                &old
            ),
            [
                r#"spec.drivers: Invalid value: {"Name":"d","NodeID":"j","TopologyKeys":null,"Allocatable":null}: field is immutable"#
            ]
        );
        assert_eq!(
            updated(&CsiNode, Scope::Main, &with(r#"{"name":"d","nodeID":"i"}"#), &old),
            Vec::<String>::new()
        );
    }
}
