//! Defaults: what unset fields get when an object is decoded (Go's `SetDefaults_*`). They belong to types, so that a pod
//! template gets its defaults in every kind. `data/defaults.txt` has the grammar.

use crate::builtin::TYPES;
use crate::{
    apiextensions, apps, autoscaling, batch, core, facts, features, fields, fill, networking, resource,
};
use pintle_value::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

const TABLE: &str = include_str!("../data/defaults.txt");
/// Maps of quantities, which the API rounds up to thousandths.
const RESOURCE_LIST: &str = "core/v1.ResourceList";

static ALL: LazyLock<HashMap<&'static str, Arc<Defaults>>> = LazyLock::new(|| {
    let mut loader = Loader { structs: structs(), blocks: blocks(), done: HashMap::new() };
    let names: Vec<&str> = loader.structs.keys().copied().collect();
    names.into_iter().filter_map(|name| Some((name, loader.defaults(name)?))).collect()
});

/// The defaults of a Go type (`apps/v1.Deployment`), if it has any.
pub(crate) fn of_type(name: &str) -> Option<Arc<Defaults>> {
    ALL.get(name).cloned()
}

/// The defaults of a struct and of what is in it.
#[derive(Debug, Default)]
pub struct Defaults {
    steps: Vec<Step>,
    /// Members with defaults of their own, sorted by key.
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Step {
    Set(Setting),
    Call(fn(&mut Value)),
}

/// A field and its default.
#[derive(Clone, Debug)]
struct Setting {
    /// The structs around the field.
    parents: Vec<Member>,
    key: &'static str,
    value: Value,
    /// Whether `""`, 0 and an empty list are unset, too.
    also_zero: bool,
    /// The text field and those of its values for which the default holds.
    condition: Option<(&'static str, Vec<&'static str>)>,
    /// The feature gate without which there is no default, or "".
    gate: &'static str,
}

/// A member, and whether it is a pointer, so that it may be absent.
#[derive(Clone, Copy, Debug)]
struct Member {
    key: &'static str,
    pointer: bool,
}

#[derive(Debug)]
struct Part {
    member: Member,
    defaults: MemberDefaults,
}

#[derive(Debug)]
enum MemberDefaults {
    Struct(Arc<Defaults>),
    /// The items of a list or the values of a map.
    Each(Arc<Defaults>),
    Quantities,
}

impl Defaults {
    /// Applies all defaults.
    pub fn apply(&self, object: &mut Value) {
        if object.is_null() {
            *object = Value::object();
        }
        self.steps.iter().for_each(|step| step.apply(object));
        let Value::Object(members) = object else { return };
        for part in self.parts.iter().filter(|part| part.fills_absent()) {
            exist(members, part.member.key);
        }
        // A volume has one of thirty sources; most other structs have most of their parts.
        if self.parts.len() > members.len() {
            for (key, member) in members.iter_mut() {
                if let Ok(at) = self.parts.binary_search_by(|part| part.member.key.cmp(key.as_str())) {
                    self.parts.get(at).into_iter().for_each(|part| part.defaults.apply(member));
                }
            }
            return;
        }
        for part in &self.parts {
            if let Some(member) = members.get_mut(part.member.key) {
                part.defaults.apply(member);
            }
        }
    }

    /// Returns whether an absent value of this type gets defaults.
    fn fills(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Set(_)))
            || self.parts.iter().any(Part::fills_absent)
    }
}

/// Sets an absent member to an empty struct.
fn exist(members: &mut Map, key: &'static str) {
    if members.get(key).is_none_or(Value::is_null) {
        members.insert(key, Value::object());
    }
}

impl Part {
    fn fills_absent(&self) -> bool {
        matches!(&self.defaults, MemberDefaults::Struct(inner) if !self.member.pointer && inner.fills())
    }
}

impl MemberDefaults {
    fn apply(&self, member: &mut Value) {
        match (self, member) {
            (MemberDefaults::Struct(inner), object @ Value::Object(_)) => inner.apply(object),
            (MemberDefaults::Each(inner), Value::Array(items)) => {
                items.iter_mut().for_each(|item| inner.apply(item))
            }
            (MemberDefaults::Each(inner), Value::Object(values)) => {
                values.iter_mut().for_each(|(_, value)| inner.apply(value));
            }
            (MemberDefaults::Quantities, list) => fill::round_resource_list(Some(list)),
            _ => {}
        }
    }
}

impl Step {
    fn apply(&self, object: &mut Value) {
        match self {
            Step::Call(function) => function(object),
            Step::Set(setting) => setting.apply(object),
        }
    }
}

impl Setting {
    fn apply(&self, object: &mut Value) {
        let holds = |(field, values): &(&str, Vec<&str>)| values.contains(&fields::text(object, field));
        if !self.condition.as_ref().is_none_or(holds) {
            return;
        }
        if !self.gate.is_empty() && !features::is_enabled(self.gate) {
            return;
        }
        let mut object = object;
        for parent in &self.parents {
            let Value::Object(members) = object else { return };
            if !parent.pointer {
                exist(members, parent.key);
            }
            let Some(inner @ Value::Object(_)) = members.get_mut(parent.key) else { return };
            object = inner;
        }
        let Value::Object(members) = object else { return };
        let present = fields_member(members, self.key);
        if if self.also_zero { facts::is_unset(present) } else { present.is_none() } {
            members.insert(self.key, self.value.clone());
        }
    }
}

fn fields_member<'a>(members: &'a Map, key: &str) -> Option<&'a Value> {
    members.get(key).filter(|value| !value.is_null())
}

/// Functions for defaults that depend on other fields.
fn function_named(name: &str) -> Option<fn(&mut Value)> {
    use core::podspec::defaults as pods;
    Some(match name {
        "autoscaler_annotations" => autoscaling::horizontalpodautoscaler::drop_annotations,
        "claim_templates" => apps::statefulset::name_claim_types,
        "cpu_target" => autoscaling::horizontalpodautoscaler::default_target,
        "definition" => apiextensions::definition::default_names_and_versions,
        "empty_dir" => pods::empty_dir,
        "exact_request" => resource::default_beta_request,
        "image_pull_policy" => pods::image_pull_policy,
        "init_container_annotations" => pods::drop_init_container_annotations,
        "job" => batch::job::default_from_others,
        "limits_from_bounds" => core::limitrange::default_from_bounds,
        "name_label" => core::namespace::set_name_label,
        "node" => core::node::default_from_others,
        "pod" => pods::pod,
        "pod_ips" => pods::pod_ips,
        "policy_types" => networking::networkpolicy::default_types,
        "replication_controller" => core::replicationcontroller::default_from_template,
        "service" => core::service::default_from_others,
        "service_account" => pods::same_service_account,
        "string_data" => core::secret::take_string_data,
        "target_port" => core::service::default_target_port,
        "rollback" => apps::deployment::normalize_rollback,
        "template_generation" => apps::daemonset::default_template_generation,
        "volume_pull_policy" => pods::volume_pull_policy,
        _ => return None,
    })
}

/// A field in the table of types.
#[derive(Clone, Copy)]
struct Declared {
    member: Member,
    /// The field's type without the `*` of a pointer.
    type_: &'static str,
    default: Option<&'static str>,
}

/// The fields of the structs in the table of types; those of inlined structs are under the key `inline`.
fn structs() -> HashMap<&'static str, Vec<Declared>> {
    let mut structs = HashMap::with_capacity(1024);
    let mut lines = TYPES.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("struct ") else { continue };
        let mut fields = Vec::new();
        while let Some(field) = lines.next_if(|line| line.starts_with(' ')) {
            fields.extend(parse_declaration(field.trim_start()));
        }
        structs.insert(name.split(' ').next().unwrap_or_default(), fields);
    }
    structs
}

fn parse_declaration(line: &'static str) -> Option<Declared> {
    let mut words = line.splitn(3, ' ');
    let (key, type_) = (words.next()?, words.next()?);
    let facts = words.next().filter(|facts| facts.contains('='));
    let default = facts.and_then(|facts| facts.split_once("default=")).map(|(_, value)| value);
    let pointer = type_.starts_with('*');
    Some(Declared { member: Member { key, pointer }, type_: type_.trim_start_matches('*'), default })
}

/// The lines of the blocks, by type.
fn blocks() -> HashMap<&'static str, Vec<&'static str>> {
    let mut blocks: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut types: Vec<&str> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(' ') {
            None => types = line.split(' ').collect(),
            Some(text) => types.iter().for_each(|name| blocks.entry(name).or_default().push(text)),
        }
    }
    blocks
}

struct Loader {
    structs: HashMap<&'static str, Vec<Declared>>,
    blocks: HashMap<&'static str, Vec<&'static str>>,
    done: HashMap<&'static str, Option<Arc<Defaults>>>,
}

impl Loader {
    /// The defaults of a type, if it or anything in it has some.
    fn defaults(&mut self, name: &'static str) -> Option<Arc<Defaults>> {
        // Basic types have no package.
        if !name.contains('/') || !self.structs.contains_key(name) {
            return None;
        }
        if let Some(done) = self.done.get(name) {
            return done.clone();
        }
        // A type that contains itself is not followed; none of these have defaults.
        self.done.insert(name, None);
        let mut defaults = Defaults::default();
        self.add(name, &mut defaults);
        defaults.parts.sort_by_key(|part| part.member.key);
        let any = !defaults.steps.is_empty() || !defaults.parts.is_empty();
        let made = any.then(|| Arc::new(defaults));
        self.done.insert(name, made.clone());
        made
    }

    /// Adds the defaults of a type, also of one that another inlines.
    fn add(&mut self, name: &'static str, to: &mut Defaults) {
        let lines = self.blocks.get(name).cloned().unwrap_or_default();
        if lines.contains(&"none") {
            return;
        }
        to.steps.extend(lines.into_iter().flat_map(|line| self.steps(name, line)));
        for field in self.structs.get(name).cloned().unwrap_or_default() {
            if field.member.key == "inline" {
                self.add(field.type_, to);
                continue;
            }
            // The zero value of a plain field needs no default.
            if let Some(value) = field.default.filter(|value| field.member.pointer || *value != "\"\"") {
                to.steps.push(Step::Set(Setting {
                    parents: Vec::new(),
                    key: field.member.key,
                    value: parse_value(value),
                    also_zero: !field.member.pointer,
                    condition: None,
                    gate: "",
                }));
            }
            let defaults = match item_type(field.type_) {
                _ if field.type_ == RESOURCE_LIST => Some(MemberDefaults::Quantities),
                Some(item) => self.defaults(item).map(MemberDefaults::Each),
                None => self.defaults(field.type_).map(MemberDefaults::Struct),
            };
            to.parts.extend(defaults.map(|defaults| Part { member: field.member, defaults }));
        }
    }

    /// The steps of a line of a block.
    fn steps(&self, type_: &'static str, line: &'static str) -> Vec<Step> {
        if let Some(name) = line.strip_prefix("call ") {
            return function_named(name).map(Step::Call).into_iter().collect();
        }
        let mut words = line.split(' ').peekable();
        let (names, value) = words.next().and_then(|word| word.split_once('=')).unwrap_or((line, ""));
        let (mut condition, mut gate, mut empty) = (None, "", false);
        while let Some(word) = words.next() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("if", _) => {
                    let (field, values) =
                        words.next().and_then(|word| word.split_once('=')).unwrap_or_default();
                    condition = Some((field, values.split('|').collect()));
                }
                ("gate", name) => gate = name,
                _ => empty = true,
            }
        }
        let step = |path: &'static str| {
            let mut members = self.members(type_, path)?;
            let (last, is_scalar) = members.pop()?;
            let also_zero = empty || (is_scalar && !last.pointer);
            let parents = members.into_iter().map(|(member, _)| member).collect();
            let value = parse_value(value);
            let condition = condition.clone();
            Some(Step::Set(Setting { parents, key: last.key, value, also_zero, condition, gate }))
        };
        names.split(',').filter_map(step).collect()
    }

    /// The members on a path, each with whether it is a plain text or number.
    fn members(&self, type_: &'static str, path: &'static str) -> Option<Vec<(Member, bool)>> {
        let mut type_ = type_;
        let mut members = Vec::new();
        for key in path.split('.') {
            let field = self.declared_field(type_, key)?;
            let is_struct = self.structs.contains_key(field.type_);
            members.push((field.member, !is_struct && item_type(field.type_).is_none()));
            type_ = field.type_;
        }
        Some(members)
    }

    fn declared_field(&self, type_: &str, key: &str) -> Option<Declared> {
        let fields = self.structs.get(type_)?;
        let own = fields.iter().find(|field| field.member.key == key).copied();
        own.or_else(|| {
            let inlined = fields.iter().filter(|field| field.member.key == "inline");
            inlined.into_iter().find_map(|inline| self.declared_field(inline.type_, key))
        })
    }
}

/// The type of the items of a list or the values of a map.
fn item_type(type_: &'static str) -> Option<&'static str> {
    type_.strip_prefix("[]").or_else(|| Some(type_.strip_prefix("map[")?.split_once(']')?.1))
}

/// Parses a value of the table: JSON, or text if it is not JSON.
fn parse_value(text: &str) -> Value {
    json::parse(text.as_bytes()).map_or_else(|_| Value::from(text), |parsed| parsed.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{defaulted, tree};

    #[test]
    fn the_table_names_types_fields_and_functions() {
        let loader = Loader { structs: structs(), blocks: blocks(), done: HashMap::new() };
        let mut blocks: Vec<_> = loader.blocks.iter().collect();
        blocks.sort();
        for (type_, lines) in blocks {
            assert!(loader.structs.contains_key(type_), "no type {type_}");
            for line in lines.iter().filter(|line| **line != "none") {
                let count = line.split(' ').next().unwrap().split('=').next().unwrap().split(',').count();
                assert_eq!(loader.steps(type_, line).len(), count, "{type_}: {line}");
            }
        }
    }

    /// Of conditional defaults and of objects and lists the text need not have the value: it says it in words.
    #[test]
    fn descriptions_mention_defaults() {
        let loader = Loader { structs: structs(), blocks: blocks(), done: HashMap::new() };
        let mut unmentioned = Vec::new();
        let mut check = |type_: &str, field: &str, value: &str| {
            let Some(text) = crate::descriptions::of_go_field(type_, field) else { return };
            let value = value.trim_matches('"');
            let is_plain = !value.is_empty() && !value.starts_with(['{', '[']);
            // Permission bits are octal numbers in texts.
            let octal =
                value.parse().map_or_else(|_| value.to_string(), |number: u32| format!("0{number:o}"));
            let text = text.to_lowercase();
            let says_value = [value, &octal].iter().any(|value| text.contains(&value.to_lowercase()));
            if !text.contains("default") || (is_plain && !says_value) {
                unmentioned.push(format!("{type_} {field}={value}: {text}"));
            }
        };
        let mut structs: Vec<_> = loader.structs.iter().collect();
        structs.sort_by_key(|(name, _)| **name);
        for (type_, fields) in structs {
            for field in fields {
                field.default.iter().for_each(|value| check(type_, field.member.key, value));
            }
        }
        let mut blocks: Vec<_> = loader.blocks.iter().collect();
        blocks.sort();
        for (type_, lines) in blocks {
            for (names, value) in lines.iter().filter_map(|line| line.split(' ').next()?.split_once('=')) {
                names.split(',').for_each(|field| check(type_, field, value));
            }
        }
        assert!(unmentioned.is_empty(), "{unmentioned:#?}");
    }

    #[test]
    fn plain_structs_exist_and_pointers_do_not() {
        assert_eq!(
            defaulted("apps/v1.StatefulSet", r#"{"spec":{"updateStrategy":{"type":"OnDelete"}}}"#),
            r#"{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},"podManagementPolicy":"OrderedReady","replicas":1,"revisionHistoryLimit":10,"template":{"spec":{"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}},"updateStrategy":{"type":"OnDelete"}}}"#
        );
    }

    #[test]
    fn conditions_and_zero_values_decide_what_is_unset() {
        assert_eq!(
            defaulted(
                "rbac/v1.RoleBinding",
                r#"{"subjects":[{"kind":"User","apiGroup":""},{"kind":"ServiceAccount"}],"roleRef":{"apiGroup":"x"}}"#
            ),
            r#"{"roleRef":{"apiGroup":"x"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User"},{"kind":"ServiceAccount"}]}"#
        );
        assert_eq!(
            defaulted("discovery/v1.EndpointSlice", r#"{"ports":[{"name":"","protocol":null}]}"#),
            r#"{"ports":[{"name":"","protocol":"TCP"}]}"#
        );
    }

    #[test]
    fn hostile_trees_are_left_alone() {
        for text in ["[]", r#""x""#, r#"{"spec":[]}"#, r#"{"spec":{"template":7,"strategy":"x"}}"#] {
            let mut object = tree(text);
            of_type("apps/v1.Deployment").unwrap().apply(&mut object);
        }
    }
}
