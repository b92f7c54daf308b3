//! The lists of a strategic merge patch: merged by key or by value, then ordered.
//!
//! The order of the patch takes precedence over that of the live list; an item that only the live list has keeps its
//! position relative to the shared items.

use super::{
    DIRECTIVE, ELEMENT_ORDER, Merge, bad_directive, bad_element_order, list_name, unclassified,
    without_directives, wrong_type,
};
use crate::patch::{PatchError, go_text};
use pintle_schema::{NodeId, Patch};
use pintle_value::{Map, Str, Value};
use std::collections::HashMap;

type Merged<T> = Result<T, PatchError>;

impl Merge<'_> {
    /// Merges one list by its rule. `deletes` is set for `$deleteFromPrimitiveList`.
    pub(super) fn list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        item: NodeId,
        rule: &Patch,
        deletes: bool,
        depth: usize,
    ) -> Merged<Vec<Value>> {
        if !rule.merge && !deletes {
            return Ok(patch);
        }
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        let key = rule.key.as_str();
        if !items_are_objects(&original, &patch)? {
            if deletes {
                return Ok(without(original, &patch));
            }
            let mut both = original.clone();
            both.extend(patch.iter().cloned());
            return in_order(deduplicated(both), &patch, &original, key);
        }
        if key.is_empty() {
            let kind = super::go_kind(self.arena.node(item));
            return Err(unclassified(format!("cannot merge lists without merge key for {kind}")));
        }
        let (original, patch) = apply_directives(original, patch, key)?;
        let order = original.clone();
        let merged = self.items(original, patch.clone(), key, item, depth)?;
        in_order(merged, &patch, &order, key)
    }

    /// Merges the items of `patch` into those of the same key, or appends them.
    fn items(
        &self,
        mut original: Vec<Value>,
        patch: Vec<Value>,
        key: &str,
        item: NodeId,
        depth: usize,
    ) -> Merged<Vec<Value>> {
        let mut places = Index::new(&original, key);
        for change in patch {
            let Value::Object(change) = change else { return Err(not_a_map(&change)) };
            let Some(id) = change.get(key).map(go_text::identity) else {
                return Err(no_merge_key(change, key));
            };
            match places.0.get(&id).and_then(|at| original.get_mut(*at)) {
                Some(slot) => {
                    let current = match std::mem::take(slot) {
                        Value::Object(current) => current,
                        _ => Map::new(),
                    };
                    *slot = Value::Object(self.merge_map(current, change, item, depth.saturating_add(1))?);
                }
                None => {
                    places.0.insert(id, original.len());
                    original.push(Value::Object(change));
                }
            }
        }
        Ok(original)
    }

    /// Merges the lists that have a `$setElementOrder` and takes both out of the patch.
    pub(super) fn element_orders(
        &self,
        original: &mut Map,
        patch: &mut Map,
        node: NodeId,
        depth: usize,
    ) -> Merged<()> {
        let directives: Vec<Str> = patch.keys().filter(|k| k.starts_with(ELEMENT_ORDER)).cloned().collect();
        for directive in directives {
            let order = patch.remove(&directive).unwrap_or_default();
            let Value::Array(order) = order else { return Err(not_a_list(&order)) };
            let name = list_name(&directive, ELEMENT_ORDER).ok_or_else(bad_element_order)?;
            self.merge_ordered_list(original, patch, &name, order, node, depth)?;
        }
        Ok(())
    }

    fn merge_ordered_list(
        &self,
        original: &mut Map,
        patch: &mut Map,
        name: &str,
        order: Vec<Value>,
        node: NodeId,
        depth: usize,
    ) -> Merged<()> {
        let live = list_of(original, name)?;
        let change = list_of(patch, name)?;
        let (below, rule) = self.lookup(node, name)?;
        let item = self.item_type(node, below)?;
        let key = rule.key.as_str();
        check_order(change.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (&live, &change) {
            (None, None) => return Ok(()),
            (Some(live), None) => live.clone(),
            (None, Some(change)) => change.iter().cloned().filter_map(without_directives).collect(),
            (Some(live), Some(change)) => {
                self.list(live.clone(), change.clone(), item, rule, false, depth)?
            }
        };
        let live = live.unwrap_or_default();
        items_are_objects(&live, change.as_deref().unwrap_or_default())?;
        let sorted = in_order(merged, &order, &live, key)?;
        original.insert(name, Value::Array(sorted));
        patch.remove(name);
        Ok(())
    }
}

fn list_of(map: &Map, name: &str) -> Merged<Option<Vec<Value>>> {
    match map.get(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(not_a_list(other)),
    }
}

fn not_a_list(value: &Value) -> PatchError {
    wrong_type(&Value::Array(Vec::new()), value)
}

fn not_a_map(value: &Value) -> PatchError {
    wrong_type(&Value::object(), value)
}

fn no_merge_key(item: Map, key: &str) -> PatchError {
    let item = go_text::go_text(&Value::Object(item));
    unclassified(format!("map: {item} does not contain declared merge key: {key}"))
}

/// Whether the items of both lists are objects; all must be of the same kind, and none a list.
fn items_are_objects(original: &[Value], patch: &[Value]) -> Merged<bool> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(unclassified("no elements in any of the given slices"));
    };
    if let Value::Array(_) = first {
        return Err(PatchError::DoesNotApply("lists of lists are not supported".into()));
    }
    let kind = std::mem::discriminant(first);
    if items.any(|item| std::mem::discriminant(item) != kind) {
        let lists = [original, patch].map(|list| Value::Array(list.to_vec()));
        let lists = go_text::go_text(&Value::Array(lists.to_vec()));
        return Err(unclassified(format!("list element types are not identical: {lists}")));
    }
    Ok(matches!(first, Value::Object(_)))
}

/// Executes the items that are directives. Returns the list to merge into and the items to merge.
fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Merged<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted: HashMap<Vec<u8>, Value> = HashMap::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(map) = item else { return Err(not_a_map(&item)) };
        let Some(directive) = map.get(DIRECTIVE) else {
            plain.push(Value::Object(map));
            continue;
        };
        match directive.as_str() {
            Some("delete") => match map.get(key) {
                Some(gone) => {
                    deleted.insert(go_text::identity(gone), gone.clone());
                }
                None => return Err(no_merge_key(map, key)),
            },
            Some("replace") => replace = true,
            Some("merge") => return Err(unclassified("merging lists cannot yet be specified in the patch")),
            _ => {
                let directive = directive.clone();
                return Err(bad_directive(&directive, map));
            }
        }
    }
    if !deleted.is_empty() {
        let is_deleted = |id: &Value| deleted.get(&go_text::identity(id)) == Some(id);
        original.retain(|live| !live.get(key).is_some_and(is_deleted));
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn without(original: Vec<Value>, gone: &[Value]) -> Vec<Value> {
    let gone = Index::new(gone, "");
    original.into_iter().filter(|item| gone.place(item, "").is_none()).collect()
}

/// Removes duplicates. As in kube-apiserver, the last item fills the gap.
fn deduplicated(mut items: Vec<Value>) -> Vec<Value> {
    let mut seen = HashMap::new();
    let mut at = 0;
    while let Some(item) = items.get(at) {
        if seen.insert(go_text::identity(item), ()).is_some() {
            items.swap_remove(at);
        } else {
            at = at.saturating_add(1);
        }
    }
    items
}

/// Checks that the patch's items have the order of the directive, and that it lists them all.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Merged<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut named = order.iter();
    for item in patch {
        if !key.is_empty() && item.as_object().is_none() {
            return Err(not_a_map(item));
        }
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        let id = key_of(item, key)?;
        loop {
            let Some(next) = named.next() else { return Err(out_of_order(patch, order)) };
            if key_of(next, key)? == id {
                break;
            }
        }
    }
    Ok(())
}

fn out_of_order(patch: &[Value], order: &[Value]) -> PatchError {
    let [patch, order] = [patch, order].map(|list| go_text::go_text(&Value::Array(list.to_vec())));
    unclassified(format!(
        "The order in patch list:\n{patch}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
    ))
}

/// The merge key of an item, or the item itself if there is no key.
fn key_of<'v>(item: &'v Value, key: &str) -> Merged<&'v Value> {
    if key.is_empty() {
        return Ok(item);
    }
    match item {
        Value::Object(map) => map.get(key).ok_or_else(|| no_merge_key(map.clone(), key)),
        other => Err(not_a_map(other)),
    }
}

/// The positions of items in a list; of several with the same key, the first.
pub(super) struct Index(HashMap<Vec<u8>, usize>);

impl Index {
    pub(super) fn new(items: &[Value], key: &str) -> Self {
        let mut places = HashMap::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            if let Ok(id) = key_of(item, key) {
                places.entry(go_text::identity(id)).or_insert(at);
            }
        }
        Index(places)
    }

    pub(super) fn place(&self, item: &Value, key: &str) -> Option<usize> {
        self.0.get(&go_text::identity(key_of(item, key).ok()?)).copied()
    }
}

/// Sorts the `items` that `wanted` lists by it and the others by `live`, then merges both: an item that only the live
/// list has goes before the first wanted item that follows it in the live list.
fn in_order(items: Vec<Value>, wanted: &[Value], live: &[Value], key: &str) -> Merged<Vec<Value>> {
    for item in items.iter().chain(wanted) {
        key_of(item, key)?;
    }
    let (wanted, live) = (Index::new(wanted, key), Index::new(live, key));
    let mut named: Vec<(usize, Option<usize>, Value)> = Vec::new();
    let mut others: Vec<(Option<usize>, Value)> = Vec::new();
    for item in items {
        let in_live = live.place(&item, key);
        match wanted.place(&item, key) {
            Some(place) => named.push((place, in_live, item)),
            None => others.push((in_live, item)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len().saturating_add(others.len()));
    let mut others = others.into_iter().peekable();
    for (_, in_live, item) in named {
        let comes_first =
            |other: &(Option<usize>, Value)| matches!((other.0, in_live), (Some(o), Some(n)) if o < n);
        while let Some((_, other)) = others.next_if(comes_first) {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, item)| item));
    Ok(out)
}
