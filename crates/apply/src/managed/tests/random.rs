//! Random sequences of writes on random schemas, and the properties that must hold after each.

use super::*;
use std::collections::BTreeSet;

/// The number of sequences: enough for every pair of operations to occur many times, and still fast without optimisation.
const STORIES: u64 = 60;
const STEPS: u64 = 25;
/// The depth of the random part of a kind.
const SHAPE_DEPTH: u64 = 3;
const MANAGERS: [&str; 3] = ["alpha", "beta", "gamma"];
/// All managers. The last one appears when an untracked object is applied.
const OWNERS: [&str; 4] = ["alpha", "beta", "gamma", "before-first-apply"];

/// SplitMix64: small, seeded, the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    /// A configuration of some of the fields of the kind.
    fn config(&mut self) -> Value {
        let mut out = Value::object();
        for _ in 0..self.below(5) {
            let value = Value::from(self.pick(&["x", "y"]));
            match self.below(6) {
                0 => out.set_at(&["data", self.pick(&["a", "b", "c"])], value),
                1 => out.set_at(&["metadata", "labels", self.pick(&["l", "m"])], value),
                2 => out.set_at(&["args"], Value::Array(vec![value])),
                3 => add(&mut out, "tags", Value::from(self.pick(&["s", "t", "u"]))),
                4 => out.set_at(&["spec", "replicas"], Value::Int(self.below(3) as i64)),
                _ => {
                    let mut item = Value::object();
                    item.set_at(&["name"], self.pick(&["p", "q"]).into());
                    if self.below(2) == 0 {
                        item.set_at(&["image"], value);
                    }
                    add(&mut out, "items", item);
                }
            }
        }
        out
    }
}

/// Random schemas and objects of them.
impl Random {
    /// A kind whose `first` and `second` are of any shape.
    fn kind(&mut self) -> Value {
        let mut kind = tree(CONFIG);
        for field in ["first", "second"] {
            kind.set_at(&["fields", field], self.shape(SHAPE_DEPTH));
        }
        kind
    }

    /// A shape in the short form that `testing::schema` reads.
    fn shape(&mut self, depth: u64) -> Value {
        let scalar = self.pick(&["string", "int", "bool", "any"]);
        if depth == 0 {
            return scalar.into();
        }
        let mut shape = Value::object();
        match self.below(7) {
            0 => return scalar.into(),
            1 => {
                shape.set_at(&["list"], "string".into());
                shape.set_at(&["set"], true.into());
            }
            2 => shape.set_at(&["list"], self.shape(depth - 1)),
            3 => {
                let keys: &[&str] = if self.below(2) == 0 { &["name"] } else { &["name", "port"] };
                let mut item = self.fields(depth - 1);
                item.set_at(&["fields", "name"], "string".into());
                item.set_at(&["fields", "port"], "int".into());
                shape.set_at(&["list"], item);
                shape.set_at(&["keys"], Value::Array(keys.iter().map(|key| Value::from(*key)).collect()));
            }
            4 => shape.set_at(&["map"], self.shape(depth - 1)),
            _ => shape = self.fields(depth - 1),
        }
        if self.below(6) == 0 && shape.get("list").is_none() {
            shape.set_at(&["atomic"], true.into());
        }
        shape
    }

    fn fields(&mut self, depth: u64) -> Value {
        let mut out = Value::object();
        for field in ["a", "b", "c"] {
            out.set_at(&["fields", field], self.shape(depth));
        }
        out
    }

    /// A value of a shape without empty parts, because Go omits empty values.
    fn value(&mut self, shape: &Value) -> Value {
        match shape.as_str() {
            Some("int") => return Value::Int(1 + self.below(3) as i64),
            Some("bool") => return true.into(),
            Some(_) => return self.pick(&["x", "y", "z"]).into(),
            None => {}
        }
        if let Some(item) = shape.get("list") {
            let keys = shape.items_at(&["keys"]);
            let mut items: Vec<Value> = Vec::new();
            for _ in 0..=self.below(3) {
                let mut value = self.value(item);
                for key in keys.iter().filter_map(Value::as_str) {
                    let of = if key == "port" {
                        Value::Int(1 + self.below(2) as i64)
                    } else {
                        self.pick(&["p", "q"]).into()
                    };
                    value.set_at(&[key], of);
                }
                let is_like = |other: &Value| {
                    let same_keys =
                        keys.iter().filter_map(Value::as_str).all(|key| other.get(key) == value.get(key));
                    if keys.is_empty() { *other == value } else { same_keys }
                };
                if !items.iter().any(is_like) {
                    items.push(value);
                }
            }
            return Value::Array(items);
        }
        let mut out = Value::object();
        match shape.get("map") {
            Some(value) => (0..=self.below(2)).for_each(|_| {
                let key = self.pick(&["k", "l", "m"]);
                out.set_at(&[key], self.value(value));
            }),
            None => {
                let fields = shape.get("fields").and_then(Value::as_object).unwrap();
                let certain = self.below(fields.len() as u64) as usize;
                for (at, (name, field)) in fields.iter().enumerate() {
                    if at == certain || self.below(2) == 0 {
                        out.set_at(&[name], self.value(field));
                    }
                }
            }
        }
        out
    }

    /// A configuration of some of the fields of a random kind.
    fn config_of(&mut self, kind: &Value) -> Value {
        let mut out = self.config();
        for field in ["first", "second"] {
            if self.below(3) > 0
                && let Some(shape) = kind.at(&["fields", field])
            {
                out.set_at(&[field], self.value(shape));
            }
        }
        out
    }
}

/// Adds an item unless the list has an equal one.
fn add(object: &mut Value, list: &str, item: Value) {
    let mut items = object.items_at(&[list]).to_vec();
    let like = |other: &Value| {
        *other == item || (item.get("name").is_some() && other.get("name") == item.get("name"))
    };
    if !items.iter().any(like) {
        items.push(item);
    }
    object.set_at(&[list], Value::Array(items));
}

/// The fields that an object sets, except those that no manager can own.
fn fields_of(schema: &Schema, object: &Value) -> Set {
    let set = crate::typed::field_set(&without_managed_fields(object), crate::typed::Type::of(schema));
    set.difference(update::never_owned())
}

fn owned_by(object: &Value, manager: &str, operation: &str) -> Set {
    entries::entries_of(object)
        .iter()
        .filter(|e| e.str_at(&["manager"]) == manager && e.str_at(&["operation"]) == operation)
        .map(|e| Set::from_value(e.get("fieldsV1").unwrap()).unwrap())
        .fold(Set::new(), Set::union)
}

#[test]
fn invariants_hold_after_random_writes_of_managers() {
    for seed in 0..STORIES {
        let mut random = Random(seed);
        let kind = random.kind();
        let mut story = Story { kind: kind_of(schema(&text(&kind))), ..Story::begin() };
        let mut words = LastWriters::default();
        for step in 0..STEPS {
            let manager = random.pick(&MANAGERS);
            let body = random.config_of(&kind);
            let before = story.live.clone();
            let context = format!("seed {seed}, step {step}");
            if random.below(4) == 0 && story.live.is_some() {
                update_at_random(&mut story, manager, &body);
                words.update(manager, &before, &story.live);
            } else if apply_at_random(&mut story, manager, &body, random.below(2) == 0) {
                words.apply(manager, &body, &before);
            }
            words.check(story.live.as_ref().unwrap(), &context);
            assert!(check_managed_fields(story.live.as_ref().unwrap()).is_ok(), "{context}");
        }
    }
}

fn kind_of(v1: Schema) -> Kind {
    Kind { v1, v2: None, filter: None }
}

fn update_at_random(story: &mut Story, manager: &str, body: &Value) {
    let before = story.live.clone().unwrap();
    story.update(manager, |object| {
        for (key, value) in body.as_object().unwrap().iter().filter(|(key, _)| *key != "metadata") {
            object.set_at(&[key], value.clone());
        }
    });
    let after = story.live.as_ref().unwrap();
    if entries::entries_of(&before).is_empty() {
        // An untracked object stays untracked until it is applied.
        return assert!(entries::entries_of(after).is_empty());
    }
    // The updater owns what it changed, and no other manager does.
    let schema = story.kind.v1.clone();
    let [old, new] = [&before, after].map(without_managed_fields);
    let change = crate::typed::compare(&old, &new, crate::typed::Type::of(&schema));
    let changed = change.modified.union(change.added);
    assert_eq!(changed.clone().difference(&owned_by(after, manager, "Update")), Set::new());
    for other in MANAGERS {
        assert_eq!(owned_by(after, other, "Apply").intersection(&changed), Set::new());
    }
    let everyone = OWNERS.iter().flat_map(|m| ["Apply", "Update"].map(|op| owned_by(after, m, op)));
    for owned in everyone {
        assert_eq!(owned.intersection(&change.removed), Set::new());
    }
}

/// Returns whether it was applied.
fn apply_at_random(story: &mut Story, manager: &str, body: &Value, force: bool) -> bool {
    let text = text(body);
    let before = story.live.clone();
    match story.apply_in("v1", manager, &text, force) {
        Err(ApplyError::Conflicts(conflicts)) => {
            assert!(!force, "force never conflicts");
            assert!(!conflicts.is_empty());
            assert_eq!(story.live, before);
            return false;
        }
        Err(other) => panic!("{other}: {text}"),
        Ok(_) => {}
    }
    let after = story.live.clone().unwrap();
    // An applier owns the fields that it applies, and they have the applied values.
    let schema = story.kind.v1.clone();
    let config = fields_of(&schema, &story.object("v1", &text));
    assert_eq!(owned_by(&after, manager, "Apply"), config, "{text}");
    let ty = crate::typed::Type::of(&schema);
    let live = without_managed_fields(&after);
    assert_eq!(crate::typed::merge(&live, &story.object("v1", &text), ty), live, "{text}");
    // Dropped fields are removed, unless another manager owns them.
    if let Some(before) = &before {
        let dropped = owned_by(before, manager, "Apply").difference(&config);
        let others = OWNERS.iter().flat_map(|m| ["Apply", "Update"].map(|op| owned_by(&after, m, op)));
        let kept = fields_of(&schema, &after).intersection(&dropped.leaves());
        assert_eq!(kept.difference(&others.fold(Set::new(), Set::union)), Set::new(), "{text}");
    }
    // Applying again changes nothing, even after force.
    assert_eq!(story.apply_in("v1", manager, &text, false), Ok(false), "{text}");
    assert_eq!(story.live.as_ref(), Some(&after), "{text}");
    applying_what_is_live_changes_nothing(story, &after);
    let names: BTreeSet<&str> = entries::entries_of(&after).iter().map(|e| e.str_at(&["manager"])).collect();
    assert!(names.iter().all(|name| OWNERS.contains(name)));
    true
}

fn applying_what_is_live_changes_nothing(story: &Story, live: &Value) {
    let mut other = Story { kind: kind_of(story.kind.v1.clone()), ..Story::begin() };
    other.live = Some(live.clone());
    other.second = story.second;
    assert_eq!(other.apply_in("v1", "delta", &text(&without_managed_fields(live)), false), Ok(false));
    assert_eq!(without_managed_fields(other.live.as_ref().unwrap()), without_managed_fields(live));
}

/// The last writer of each member of `data`: the model that managed fields are compared with.
#[derive(Default)]
struct LastWriters(std::collections::BTreeMap<Str, BTreeSet<String>>);

impl LastWriters {
    fn data(object: &Option<Value>) -> Map {
        object.as_ref().and_then(|o| o.get("data")).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    fn apply(&mut self, manager: &str, body: &Value, before: &Option<Value>) {
        let (config, live) = (Self::data(&Some(body.clone())), Self::data(before));
        let manager = format!("{manager} Apply");
        for (key, owners) in &mut self.0 {
            if !config.contains_key(key) {
                owners.remove(&manager);
            }
        }
        for (key, value) in config.iter() {
            let owners = self.0.entry(key.clone()).or_default();
            if live.get(key) != Some(value) {
                owners.clear();
            }
            owners.insert(manager.clone());
        }
    }

    fn update(&mut self, manager: &str, before: &Option<Value>, after: &Option<Value>) {
        let (old, new) = (Self::data(before), Self::data(after));
        self.0.retain(|key, _| new.contains_key(key));
        for (key, _) in new.iter().filter(|(key, value)| old.get(key) != Some(value)) {
            self.0.insert(key.clone(), BTreeSet::from([format!("{manager} Update")]));
        }
    }

    fn check(&mut self, live: &Value, context: &str) {
        let mut found: std::collections::BTreeMap<Str, BTreeSet<String>> = Default::default();
        let all = OWNERS.iter().flat_map(|manager| ["Apply", "Update"].map(|operation| (manager, operation)));
        let all: Vec<(String, Set)> = all
            .map(|(manager, operation)| {
                (format!("{manager} {operation}"), owned_by(live, manager, operation))
            })
            .collect();
        for key in Self::data(&Some(live.clone())).keys() {
            let path = FieldPath::of(&["data", key]);
            let owners = all.iter().filter(|(_, set)| set.has(&path)).map(|(name, _)| name.clone());
            found.insert(key.clone(), owners.collect());
        }
        self.0.retain(|_, owners| !owners.is_empty());
        let untracked = entries::entries_of(live).is_empty()
            || !owned_by(live, "before-first-apply", "Update").is_empty();
        if untracked {
            // An untracked object has no known owners: the model starts again from the managed fields.
            self.0 = found;
            self.0.retain(|_, owners| !owners.is_empty());
        } else {
            assert_eq!(self.0, found, "{context}");
        }
    }
}
