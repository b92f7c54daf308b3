//! What is left of a strategic merge patch when it has been merged. kube-apiserver changes the patch while it merges it,
//! and quotes the rest in errors.

use super::list::Index;
use super::{DELETE_FROM, DIRECTIVE, ELEMENT_ORDER, Merge, RETAIN_KEYS, drop_nulls, list_name};
use pintle_schema::{NodeId, Schema};
use pintle_value::{Map, Value};

/// The rest of `patch`, which was merged into `document`.
pub fn remaining(document: &Value, patch: &Value, schema: &Schema) -> Value {
    let mut rest = patch.clone();
    if let (Value::Object(document), Value::Object(rest)) = (document, &mut rest) {
        Merge { arena: schema.arena() }.consume(document, rest, schema.root());
    }
    rest
}

impl Merge<'_> {
    pub(super) fn consume(&self, original: &Map, patch: &mut Map, node: NodeId) {
        if let Some(directive) = patch.get(DIRECTIVE) {
            if directive.as_str() == Some("replace") {
                patch.remove(DIRECTIVE);
            }
            return;
        }
        let retained = patch.remove(RETAIN_KEYS);
        let is_retained = |key: &str| match &retained {
            Some(Value::Array(keys)) => keys.iter().any(|listed| listed.as_str() == Some(key)),
            _ => true,
        };
        let orders = patch.keys().filter_map(|key| list_name(key, ELEMENT_ORDER));
        for name in orders.collect::<Vec<_>>() {
            patch.remove(&format!("{ELEMENT_ORDER}/{name}"));
            patch.remove(&name);
        }
        for (key, change) in patch.iter_mut().filter(|(key, _)| !key.starts_with(DELETE_FROM)) {
            match (original.get(key).filter(|_| is_retained(key)), change) {
                (Some(Value::Object(current)), Value::Object(change)) => {
                    if let Ok((below, rule)) = self.lookup(node, key)
                        && !rule.replace
                    {
                        self.consume(current, change, below);
                    }
                }
                (Some(Value::Array(current)), Value::Array(changes)) => {
                    self.consume_items(current, changes, key, node);
                }
                (_, change) => {
                    drop_nulls(change);
                    drop_directives(change);
                }
            }
        }
    }

    fn consume_items(&self, current: &[Value], changes: &mut [Value], name: &str, node: NodeId) {
        let Ok((below, rule)) = self.lookup(node, name) else { return };
        let Ok(item) = self.item_type(node, below) else { return };
        if !rule.merge || rule.key.is_empty() {
            return;
        }
        let places = Index::new(current, &rule.key);
        for change in changes {
            let live = places.place(change, &rule.key).and_then(|at| current.get(at));
            if let (Some(Value::Object(live)), Value::Object(change)) = (live, change)
                && !change.contains_key(DIRECTIVE)
            {
                self.consume(live, change, item);
            }
        }
    }
}

/// Removes members that are directives. Items of lists remain, because Go makes a new list without them.
fn drop_directives(value: &mut Value) {
    match value {
        Value::Object(map) if !map.contains_key(DIRECTIVE) => map.retain(|_, member| {
            drop_directives(member);
            !matches!(member, Value::Object(map) if map.contains_key(DIRECTIVE))
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_directives),
        _ => {}
    }
}
