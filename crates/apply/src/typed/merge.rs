//! Merges a configuration into a value: fields of the configuration take precedence, all others are unchanged.

use super::{Atom, Fields, List, Type, filled_map, items, list_items, zip};
use crate::fieldset::PathElement;
use pintle_value::{Map, Value};

/// Merges `config` into `live`. Both must be valid values of the type; `config` must not repeat items.
pub fn merge(live: &Value, config: &Value, ty: Type<'_>) -> Value {
    walk(Some(live), Some(config), ty).unwrap_or_default()
}

fn walk(live: Option<&Value>, config: Option<&Value>, ty: Type<'_>) -> Option<Value> {
    // A value that only one side has is copied: merging it with nothing would give the same.
    let (Some(_), Some(_)) = (live, config) else { return config.or(live).cloned() };
    match ty.atom(config) {
        Atom::Scalar(_) => config.cloned(),
        Atom::List(list) => {
            let empty = list_items(live).is_empty() && list_items(config).is_empty();
            if list.is_atomic() || empty {
                return config.cloned();
            }
            lists(&list, list_items(live), list_items(config))
        }
        Atom::Map(fields) => {
            let (live, filled) = (filled_map(live), filled_map(config));
            if fields.atomic || (live.is_none() && filled.is_none()) {
                return config.cloned();
            }
            merge_maps(&fields, live, filled)
        }
    }
}

fn merge_maps(fields: &Fields<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let size = |side: Option<&Value>| side.and_then(Value::as_object).map_or(0, Map::len);
    let mut merged = Vec::with_capacity(size(live).max(size(config)));
    merged.extend(
        zip(live, config)
            .filter_map(|(key, live, config)| Some((key.clone(), walk(live, config, fields.field(key)?)?))),
    );
    (!merged.is_empty()).then(|| Value::Object(Map::from_entries(merged).0))
}

/// Merges keyed lists and sets. Shared items have the order of the configuration; items that only the live list has keep
/// their position between them.
fn lists(list: &List<'_>, live: &[Value], config: &[Value]) -> Option<Value> {
    if live == config {
        return Some(Value::Array(config.to_vec()));
    }
    let mut weave = ListMerge::new(list, live, config);
    weave.run();
    (!weave.out.is_empty()).then_some(Value::Array(weave.out))
}

/// One list: its items, and the number of each item's element.
struct Side<'v> {
    items: Vec<&'v Value>,
    ids: Vec<usize>,
    at: usize,
}

impl<'v> Side<'v> {
    fn next_id(&self) -> Option<usize> {
        self.ids.get(self.at).copied()
    }

    fn take(&mut self) -> Option<&'v Value> {
        let item = self.items.get(self.at).copied();
        self.skip(1);
        item
    }

    fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }
}

/// The state of one element.
#[derive(Clone, Copy, Default)]
struct Known<'v> {
    /// The live item. Repeated items are ambiguous, so they cannot be merged and count as null.
    live: Option<&'v Value>,
    /// Whether the configuration has the item.
    wanted: bool,
    /// Whether the item is already in the result.
    done: bool,
}

struct ListMerge<'a, 's, 'v> {
    list: &'a List<'s>,
    live: Side<'v>,
    config: Side<'v>,
    known: Vec<Known<'v>>,
    /// The shared elements that are not merged yet, in the order of the configuration.
    shared: std::vec::IntoIter<usize>,
    next_shared: Option<usize>,
    out: Vec<Value>,
}

impl<'a, 's, 'v> ListMerge<'a, 's, 'v> {
    fn new(list: &'a List<'s>, live: &'v [Value], config: &'v [Value]) -> Self {
        let (live_elements, live_items) = with_elements(list, live);
        let (config_elements, config_items) = with_elements(list, config);
        let (live_ids, config_ids, count) = number(&live_elements, &config_elements);
        let mut known = vec![Known::default(); count];
        for (id, item) in live_ids.iter().zip(&live_items) {
            if let Some(known) = known.get_mut(*id) {
                known.live = Some(if known.live.is_none() { item } else { &Value::Null });
            }
        }
        for id in &config_ids {
            if let Some(known) = known.get_mut(*id) {
                known.wanted = true;
            }
        }
        let in_live = |id: &usize| known.get(*id).is_some_and(|known| known.live.is_some());
        let shared: Vec<usize> = config_ids.iter().copied().filter(in_live).collect();
        let mut shared = shared.into_iter();
        ListMerge {
            list,
            next_shared: shared.next(),
            shared,
            known,
            out: Vec::with_capacity(live_ids.len().max(config_ids.len())),
            live: Side { items: live_items, ids: live_ids, at: 0 },
            config: Side { items: config_items, ids: config_ids, at: 0 },
        }
    }

    fn known(&self, id: usize) -> Known<'v> {
        self.known.get(id).copied().unwrap_or_default()
    }

    fn run(&mut self) {
        loop {
            match (self.live.next_id(), self.config.next_id()) {
                (None, None) => return,
                (Some(live), Some(config)) if live == config => {
                    self.live.skip(1);
                    self.take_wanted(config);
                }
                (Some(live), _) if !self.known(live).wanted => {
                    let item = self.live.take().cloned();
                    self.out.extend(item);
                }
                // Both have it, but in the configuration another shared item comes first.
                (Some(live), Some(_)) if self.next_shared.is_some_and(|next| next != live) => {
                    self.live.skip(1);
                }
                (Some(live), config) => {
                    if self.known(live).done {
                        self.live.skip(1);
                    }
                    match config {
                        Some(config) => self.take_wanted(config),
                        // All shared items are merged, so no other one must come first.
                        None => self.live.skip(usize::from(!self.known(live).done)),
                    }
                }
                (None, Some(config)) => self.take_wanted(config),
            }
        }
    }

    fn take_wanted(&mut self, id: usize) {
        let item = self.config.take();
        self.out.extend(walk(self.known(id).live, item, self.list.item));
        if let Some(known) = self.known.get_mut(id) {
            known.done = true;
        }
        if self.next_shared == Some(id) {
            self.next_shared = self.shared.next();
        }
    }
}

/// Numbers the elements of both lists, equal elements equally. Returns the numbers and how many there are.
fn number(live: &[PathElement], config: &[PathElement]) -> (Vec<usize>, Vec<usize>, usize) {
    let mut order: Vec<(&PathElement, usize)> = live.iter().chain(config).zip(0..).collect();
    order.sort_by(|a, b| a.0.cmp(b.0));
    let mut numbers = vec![0; order.len()];
    let mut count = 0_usize;
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        for (_, at) in same {
            if let Some(number) = numbers.get_mut(*at) {
                *number = count;
            }
        }
        count = count.saturating_add(1);
    }
    let config = numbers.split_off(live.len());
    (numbers, config, count)
}

fn with_elements<'v>(list: &List<'_>, items: &'v [Value]) -> (Vec<PathElement>, Vec<&'v Value>) {
    items.iter().filter_map(|item| Some((items::element(list, item).ok()?, item))).unzip()
}
