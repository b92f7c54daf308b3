//! Attributes each line of an object to its managers, by matching managedFields with the object's tree.

use crate::DEPTH_MAX;
use crate::fieldset::{FieldPath, PathElement, Set};
use pintle_value::{Str, Value};

/// An entry of `metadata.managedFields`, without its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the API")]
pub struct Manager {
    pub manager: Str,
    pub operation: Str,
    pub api_version: Str,
    pub subresource: Str,
    pub time: Str,
}

/// A value of the object and its owners.
#[derive(Clone, Debug)]
pub struct Line<'v> {
    /// The path of the value.
    pub path: FieldPath,
    /// The line's key, if it is a member of an object; items of lists have none.
    pub key: Option<&'v Str>,
    /// The value.
    pub value: &'v Value,
    /// The number of the field's ancestors.
    pub depth: usize,
    /// The indices of the managers that own it.
    pub owners: Vec<usize>,
}

/// An object as lines, one per value.
#[derive(Clone, Debug)]
pub struct Blame<'v> {
    /// The managers, in the order of the object.
    pub managers: Vec<Manager>,
    /// All values except the root and the managed fields, each before the values in it.
    pub lines: Vec<Line<'v>>,
}

/// Matches the managed fields of an object with its values. Entries with undecodable fields own nothing.
pub fn blame(object: &Value) -> Blame<'_> {
    let entries = super::entries::entries_of(object);
    let text = |entry: &Value, key: &str| Str::from(entry.str_at(&[key]));
    let managers = entries
        .iter()
        .map(|entry| Manager {
            manager: text(entry, "manager"),
            operation: text(entry, "operation"),
            api_version: text(entry, "apiVersion"),
            subresource: text(entry, "subresource"),
            time: text(entry, "time"),
        })
        .collect();
    let sets: Vec<Set> = entries
        .iter()
        .map(|entry| Set::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null)).unwrap_or_default())
        .collect();
    let claims = sets.iter().enumerate().map(|(owner, set)| Claim { owner, below: Some(set), whole: false });
    let mut walk = Walk { lines: Vec::new(), path: FieldPath::default() };
    walk.visit_children(object, &claims.collect::<Vec<_>>(), 0);
    Blame { managers, lines: walk.lines }
}

/// The fields of the current value that one manager owns.
#[derive(Clone, Copy)]
struct Claim<'s> {
    owner: usize,
    /// The paths that continue from here.
    below: Option<&'s Set>,
    /// Whether the manager owns the value as a whole.
    whole: bool,
}

struct Walk<'v> {
    lines: Vec<Line<'v>>,
    path: FieldPath,
}

impl<'v> Walk<'v> {
    fn visit_children(&mut self, value: &'v Value, claims: &[Claim<'_>], depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, member) in map.iter() {
                    if depth == 1 && key == "managedFields" && self.is_metadata() {
                        continue;
                    }
                    let element = PathElement::Field(key.clone());
                    let matches = |candidate: &PathElement| *candidate == element;
                    self.visit_child(element.clone(), &matches, Some(key), member, claims, depth);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    let index = i64::try_from(at).unwrap_or(i64::MAX);
                    let matches = |candidate: &PathElement| is_item(candidate, index, item);
                    let named = claims.iter().filter_map(|claim| claim.below).flat_map(Set::elements);
                    let element = named.filter(|e| matches(e)).min().cloned();
                    let element = element.unwrap_or(PathElement::Index(index));
                    self.visit_child(element, &matches, None, item, claims, depth);
                }
            }
            _ => {}
        }
    }

    fn visit_child(
        &mut self,
        element: PathElement,
        matches: &dyn Fn(&PathElement) -> bool,
        key: Option<&'v Str>,
        value: &'v Value,
        claims: &[Claim<'_>],
        depth: usize,
    ) {
        let mut owners = Vec::new();
        let mut below = Vec::with_capacity(claims.len());
        for claim in claims {
            let entry = claim.below.and_then(|set| set.entry(matches));
            let owns = claim.whole || entry.is_some_and(|(member, _)| member);
            let rest = entry.map(|(_, rest)| rest).filter(|rest| !rest.is_empty());
            if owns {
                owners.push(claim.owner);
            }
            if owns || rest.is_some() {
                below.push(Claim { owner: claim.owner, below: rest, whole: owns });
            }
        }
        // A set that ends here owns everything inside, unless the parts have owners of their own: a map of which all members
        // were taken over has the same set as an atomic one.
        if below.iter().any(|claim| claim.below.is_some()) {
            below.iter_mut().for_each(|claim| claim.whole = false);
        }
        self.path.0.push(element);
        self.lines.push(Line { path: self.path.clone(), key, value, depth, owners });
        self.visit_children(value, &below, depth.saturating_add(1));
        self.path.0.pop();
    }

    fn is_metadata(&self) -> bool {
        matches!(self.path.0.as_slice(), [PathElement::Field(name)] if name == "metadata")
    }
}

/// Returns whether a path element identifies this item of a list.
fn is_item(element: &PathElement, index: i64, item: &Value) -> bool {
    match element {
        PathElement::Key(fields) => fields.iter().all(|(name, value)| item.get(name) == Some(value)),
        PathElement::Value(value) => value == item,
        PathElement::Index(at) => *at == index,
        PathElement::Field(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn owners_are_found_by_field_key_value_and_as_a_whole() {
        let object = tree(
            r#"{"metadata":{"name":"x","finalizers":["a","b"],"managedFields":[
                {"manager":"alpha","operation":"Apply","fieldsV1":{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}},
                 "f:spec":{"f:list":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}},"f:whole":{}}}},
                {"manager":"beta","operation":"Update","fieldsV1":{"f:spec":{"f:list":{".":{},"k:{\"name\":\"c\"}":{"f:image":{}}}}}},
                {"manager":"broken","fieldsV1":{"nonsense":{}}}]},
              "spec":{"list":[{"name":"c","image":"i"}],"whole":{"deep":[1]}}}"#,
        );
        let blame = blame(&object);
        let owned_paths: Vec<String> = blame
            .lines
            .iter()
            .map(|line| {
                let owners: Vec<&str> =
                    line.owners.iter().map(|at| blame.managers.get(*at).unwrap().manager.as_str()).collect();
                format!("{} {}", line.path, owners.join(","))
            })
            .collect();
        assert_eq!(
            owned_paths,
            [
                ".metadata ",
                ".metadata.finalizers ",
                ".metadata.finalizers[=\"a\"] alpha",
                ".metadata.finalizers[1] ",
                ".metadata.name ",
                ".spec ",
                ".spec.list beta",
                ".spec.list[name=\"c\"] alpha",
                ".spec.list[name=\"c\"].image alpha,beta",
                ".spec.list[name=\"c\"].name ",
                ".spec.whole alpha",
                ".spec.whole.deep alpha",
                ".spec.whole.deep[0] alpha",
            ]
        );
    }

    /// A manager that lost all parts of a map to others still owns the map itself, and its set is then as empty as the one of
    /// an atomic value.
    #[test]
    fn a_map_whose_parts_have_other_owners_is_not_owned_as_a_whole() {
        let object = tree(
            r#"{"metadata":{"managedFields":[
                {"manager":"create","operation":"Update","fieldsV1":{"f:data":{}}},
                {"manager":"patch","operation":"Update","fieldsV1":{"f:data":{"f:k":{}}}}]},
              "data":{"k":"x"}}"#,
        );
        let owners: Vec<(String, Vec<usize>)> =
            blame(&object).lines.iter().map(|line| (line.path.to_string(), line.owners.clone())).collect();
        let expected = [(".data", vec![0]), (".data.k", vec![1]), (".metadata", vec![])];
        assert_eq!(owners, expected.map(|(path, owners)| (path.to_string(), owners)));
    }
}
