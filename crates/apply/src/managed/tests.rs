//! Sequences of applies and updates by several managers, and the resulting managed fields.

use super::*;
use crate::fieldset::{FieldPath, Set};
use crate::testing::{schema, text, tree};
use pintle_value::Map;

mod random;

const CONFIG: &str = r#"{"go":"ConfigMap","fields":{
    "apiVersion":"string","kind":"string",
    "metadata":{"go":"ObjectMeta","fields":{
        "name":"string","namespace":"string","uid":"string","resourceVersion":"string",
        "labels":{"map":"string"},"annotations":{"map":"string"},
        "finalizers":{"list":"string","set":true},
        "managedFields":{"list":"any"}}},
    "data":{"map":"string"},
    "args":{"list":"string"},
    "tags":{"list":"string","set":true},
    "items":{"keys":["name"],"list":{"fields":{"name":"string","image":"string","size":"int"}}},
    "spec":{"pointer":true,"go":"Spec","fields":{"replicas":"int","paused":"bool"}},
    "status":{"pointer":true,"go":"Status","fields":{"phase":"string"}}}}"#;

/// Versions of a kind: `v1`, and `v2` in which `data` is called `content`.
struct Kind {
    v1: Schema,
    v2: Option<Schema>,
    filter: Option<Filter>,
}

impl Versions for Kind {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        match api_version {
            "v1" => Some(self.v1.clone()),
            "v2" => self.v2.clone(),
            _ => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let Value::Object(map) = object else { return Err("no object".into()) };
        let (from, to) = if api_version == "v2" { ("data", "content") } else { ("content", "data") };
        let mut map: Map = map.clone();
        if let Some(value) = map.remove(from) {
            map.insert(to, value);
        }
        map.insert("apiVersion", api_version.into());
        Ok(Value::Object(map))
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        self.filter.as_ref()
    }
}

struct Story {
    kind: Kind,
    live: Option<Value>,
    second: u32,
}

impl Story {
    fn begin() -> Self {
        Story { kind: Kind { v1: schema(CONFIG), v2: None, filter: None }, live: None, second: 0 }
    }

    fn object(&self, version: &str, body: &str) -> Value {
        let mut object = tree(body);
        object.set_at(&["apiVersion"], version.into());
        object.set_at(&["kind"], "ConfigMap".into());
        object.set_at(&["metadata", "name"], "c".into());
        object
    }

    fn apply_in(
        &mut self,
        version: &str,
        manager: &str,
        body: &str,
        force: bool,
    ) -> Result<bool, ApplyError> {
        self.second += 1;
        let now = format!("2026-01-01T00:00:{:02}Z", self.second);
        let config = self.object(version, body);
        let gvk = GroupVersionKind::new("", version, "ConfigMap");
        let cx = Context { kind: &gvk, versions: &self.kind };
        let (manager, subresource) = manager.split_once('/').unwrap_or((manager, ""));
        let owner = Owner { manager, subresource, now: &now };
        let live = self.live.as_ref().map(|live| {
            if live.str_at(&["apiVersion"]) == version {
                live.clone()
            } else {
                self.kind.convert(live, version).unwrap()
            }
        });
        let applied = super::apply(&cx, live.as_ref(), &config, owner, force)?;
        self.live = Some(stored(applied.object));
        Ok(applied.changed)
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, body: &str) {
        self.apply_in("v1", manager, body, false).unwrap();
    }

    #[track_caller]
    fn conflict(&mut self, manager: &str, body: &str, message: &str) {
        let error = self.apply_in("v1", manager, body, false).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.to_status().code, 409);
    }

    #[track_caller]
    fn update(&mut self, manager: &str, change: impl FnOnce(&mut Value)) {
        self.second += 1;
        let now = format!("2026-01-01T00:00:{:02}Z", self.second);
        let mut new = self.live.clone().unwrap_or_else(|| self.object("v1", "{}"));
        change(&mut new);
        let gvk = GroupVersionKind::new("", "v1", "ConfigMap");
        let cx = Context { kind: &gvk, versions: &self.kind };
        let (manager, subresource) = manager.split_once('/').unwrap_or((manager, ""));
        let owner = Owner { manager, subresource, now: &now };
        super::update(&cx, self.live.as_ref(), &mut new, owner).unwrap();
        self.live = Some(stored(new));
    }

    #[track_caller]
    fn set(&mut self, manager: &str, path: &[&str], value: &str) {
        self.update(manager, |object| object.set_at(path, tree(value)));
    }

    /// The object without its name and other identity.
    #[track_caller]
    fn is(&self, expected: &str) {
        let mut live = self.live.clone().unwrap();
        for path in [
            &["apiVersion"][..],
            &["kind"],
            &["metadata", "name"],
            &["metadata", "uid"],
            &["metadata", "managedFields"],
        ] {
            live.remove_at(path);
        }
        if live.get("metadata") == Some(&Value::object()) {
            live.remove_at(&["metadata"]);
        }
        assert_eq!(text(&live), text(&tree(expected)));
    }

    /// One line an entry: manager, operation letter, second, fields.
    #[track_caller]
    fn owners(&self, expected: &[&str]) {
        let line = |entry: &Value| {
            let sub = entry.str_at(&["subresource"]);
            let sub = if sub.is_empty() { String::new() } else { format!("/{sub}") };
            let time = entry.str_at(&["time"]).get(17..19).unwrap_or("--");
            let version = entry.str_at(&["apiVersion"]);
            let version = if version == "v1" { String::new() } else { format!("@{version}") };
            let fields = text(entry.get("fieldsV1").unwrap());
            format!(
                "{}{sub}{version} {} {time} {fields}",
                entry.str_at(&["manager"]),
                &entry.str_at(&["operation"])[..1]
            )
        };
        let found: Vec<String> = entries::entries_of(self.live.as_ref().unwrap()).iter().map(line).collect();
        assert_eq!(found, expected);
    }
}

fn stored(mut object: Value) -> Value {
    object.set_at(&["metadata", "uid"], "u".into());
    object
}

#[test]
fn appliers_share_what_they_agree_on_and_own_what_they_set() {
    let mut story = Story::begin();
    story.apply("alpha", r#"{"data":{"a":"1","both":"x"}}"#);
    story.apply("beta", r#"{"data":{"b":"2","both":"x"}}"#);
    story.is(r#"{"data":{"a":"1","b":"2","both":"x"}}"#);
    story.owners(&[
        r#"alpha A 01 {"f:data":{"f:a":{},"f:both":{}}}"#,
        r#"beta A 02 {"f:data":{"f:b":{},"f:both":{}}}"#,
    ]);
    // A field that one manager drops remains while another one owns it.
    story.apply("alpha", r#"{"data":{"a":"1"}}"#);
    story.is(r#"{"data":{"a":"1","b":"2","both":"x"}}"#);
    story.apply("beta", r#"{"data":{"b":"2"}}"#);
    story.is(r#"{"data":{"a":"1","b":"2"}}"#);
    story.apply("alpha", "{}");
    story.is(r#"{"data":{"b":"2"}}"#);
    story.owners(&[r#"beta A 04 {"f:data":{"f:b":{}}}"#]);
}

#[test]
fn an_apply_that_changes_nothing_keeps_the_time() {
    let mut story = Story::begin();
    story.apply("alpha", r#"{"data":{"a":"1"}}"#);
    assert_eq!(story.apply_in("v1", "alpha", r#"{"data":{"a":"1"}}"#, false), Ok(false));
    story.owners(&[r#"alpha A 01 {"f:data":{"f:a":{}}}"#]);
    // The entry of a new manager of an unchanged object has no time.
    assert_eq!(story.apply_in("v1", "beta", r#"{"data":{"a":"1"}}"#, false), Ok(false));
    story.owners(&[r#"beta A -- {"f:data":{"f:a":{}}}"#, r#"alpha A 01 {"f:data":{"f:a":{}}}"#]);
}

#[test]
fn conflicts_name_managers_and_fields() {
    let mut story = Story::begin();
    story.apply("alpha", r#"{"data":{"a":"1","both":"x"}}"#);
    story.apply("beta", r#"{"data":{"b":"1","both":"x"}}"#);
    story.set("updater", &["data", "c"], r#""1""#);
    story.conflict(
        "gamma",
        r#"{"data":{"a":"2"}}"#,
        r#"Apply failed with 1 conflict: conflict with "alpha": .data.a"#,
    );
    story.conflict(
        "gamma",
        r#"{"data":{"a":"2","b":"2","both":"y","c":"2"}}"#,
        "Apply failed with 5 conflicts: conflicts with \"alpha\":\n- .data.a\n- .data.both\nconflicts with \"beta\":\n- .data.b\n- .data.both\nconflicts with \"updater\" using v1:\n- .data.c",
    );
    let error = story.apply_in("v1", "gamma", r#"{"data":{"a":"2"}}"#, false).unwrap_err();
    let cause = error.to_status().details.causes.remove(0);
    assert_eq!(
        (cause.reason.as_str(), cause.message.as_str(), cause.field.as_str()),
        ("FieldManagerConflict", "conflict with \"alpha\"", ".data.a")
    );
    // An apply with force takes over ownership.
    story.apply_in("v1", "gamma", r#"{"data":{"a":"2","both":"y"}}"#, true).unwrap();
    story.owners(&[
        r#"beta A 02 {"f:data":{"f:b":{}}}"#,
        r#"gamma A 07 {"f:data":{"f:a":{},"f:both":{}}}"#,
        r#"updater U 03 {"f:data":{"f:c":{}}}"#,
    ]);
}

#[test]
fn updates_take_ownership_of_what_they_change() {
    let mut story = Story::begin();
    story.set("maker", &["data"], r#"{"a":"1","b":"1"}"#);
    story.owners(&[r#"maker U 01 {"f:data":{".":{},"f:a":{},"f:b":{}}}"#]);
    story.set("editor", &["data", "a"], r#""2""#);
    story.owners(&[r#"maker U 01 {"f:data":{".":{},"f:b":{}}}"#, r#"editor U 02 {"f:data":{"f:a":{}}}"#]);
    // Without a change there is no owner and no time.
    story.set("other", &["data", "a"], r#""2""#);
    story.owners(&[r#"maker U 01 {"f:data":{".":{},"f:b":{}}}"#, r#"editor U 02 {"f:data":{"f:a":{}}}"#]);
    story.update("maker", |object| _ = object.remove_at(&["data", "a"]));
    story.owners(&[r#"maker U 01 {"f:data":{".":{},"f:b":{}}}"#]);
    story.set("maker/status", &["status", "phase"], r#""On""#);
    story.owners(&[
        r#"maker U 01 {"f:data":{".":{},"f:b":{}}}"#,
        r#"maker/status U 05 {"f:status":{".":{},"f:phase":{}}}"#,
    ]);
}

#[test]
fn list_items_are_removed_with_what_nobody_else_owns() {
    let mut story = Story::begin();
    story.apply("alpha", r#"{"items":[{"name":"a","image":"1"},{"name":"b","image":"2"}]}"#);
    story.apply("beta", r#"{"items":[{"name":"a","size":1}]}"#);
    story.is(r#"{"items":[{"image":"1","name":"a","size":1},{"image":"2","name":"b"}]}"#);
    story.apply("alpha", r#"{"items":[]}"#);
    story.is(r#"{"items":[{"name":"a","size":1}]}"#);
    story.owners(&[r#"beta A 02 {"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:size":{}}}}"#]);
    // A field that an updater added to an item is removed together with the item.
    story.apply("alpha", r#"{"items":[{"name":"c","image":"1"}]}"#);
    story.update("editor", |object| {
        for item in object.get_mut("items").and_then(Value::as_array_mut).unwrap() {
            item.set_at(&["size"], Value::Int(7));
        }
    });
    story.apply("alpha", "{}");
    story.is(r#"{"items":[{"name":"a","size":7}]}"#);
}

#[test]
fn the_first_apply_gives_what_was_there_an_owner() {
    let mut story = Story::begin();
    story.set("maker", &["data"], r#"{"a":"1","b":"1"}"#);
    for reset in ["[]", "[{}]"] {
        story.set("maker", &["metadata", "managedFields"], reset);
        story.owners(&[]);
    }
    story.set("maker", &["data", "a"], r#""2""#);
    story.owners(&[]);
    story.conflict(
        "alpha",
        r#"{"data":{"a":"3"}}"#,
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a"#,
    );
    story.apply("alpha", r#"{"data":{"a":"2"}}"#);
    story.owners(&[
        r#"alpha A -- {"f:data":{"f:a":{}}}"#,
        r#"before-first-apply U 06 {"f:data":{".":{},"f:a":{},"f:b":{}}}"#,
    ]);
}

#[test]
fn managed_fields_of_the_request_count_if_they_can_be_read() {
    let mut story = Story::begin();
    story.apply("alpha", r#"{"data":{"a":"1"}}"#);
    let kept = r#"alpha A 01 {"f:data":{"f:a":{}}}"#;
    for malformed in [
        r#"[{"manager":"x","operation":"Destroy","apiVersion":"v1","fieldsType":"FieldsV1"}]"#,
        r#"[{"manager":"x","operation":"Apply","fieldsType":"FieldsV1"}]"#,
        r#"[{"manager":"x","operation":"Apply","apiVersion":"v1"}]"#,
        r#"[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"nonsense":{}}}]"#,
        r#"[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}},{}]"#,
    ] {
        let mut object = story.live.clone().unwrap();
        object.set_at(&["metadata", "managedFields"], tree(malformed));
        assert!(check_managed_fields(&object).is_err());
        story.set("editor", &["metadata", "managedFields"], malformed);
        story.owners(&[kept]);
    }
    let renamed = r#"[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]"#;
    story.set("editor/status", &["metadata", "managedFields"], renamed);
    story.owners(&[kept]);
    story.set("editor", &["metadata", "managedFields"], renamed);
    story.owners(&[r#"x A -- {"f:data":{"f:a":{}}}"#]);
}

#[test]
fn the_configuration_must_be_of_the_kind_and_of_the_right_form() {
    let mut story = Story::begin();
    let kind =
        |story: &mut Story, body: &str| story.apply_in("v1", "alpha", body, false).unwrap_err().to_string();
    assert_eq!(
        kind(&mut story, r#"{"metadata":{"managedFields":[]}}"#),
        "metadata.managedFields must be nil"
    );
    assert_eq!(
        kind(&mut story, r#"{"date":{}}"#),
        "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .date: field not declared in schema"
    );
    let gvk = GroupVersionKind::new("apps", "v1", "Deployment");
    let cx = Context { kind: &gvk, versions: &story.kind };
    let owner = Owner { manager: "alpha", subresource: "", now: "" };
    let config = story.object("v1", "{}");
    let error = super::apply(&cx, None, &config, owner, false).unwrap_err();
    assert_eq!(error.to_string(), "invalid object type: /v1, Kind=ConfigMap");
    assert_eq!(error.to_status().code, 400);
}

#[test]
fn fields_that_are_reset_are_not_owned() {
    let mut story = Story::begin();
    story.kind.filter = Some(Filter { reset: Set::of(&[&["status"]]) });
    story.apply("alpha", r#"{"data":{"a":"1"},"status":{"phase":"On"}}"#);
    story.owners(&[r#"alpha A 01 {"f:data":{"f:a":{}}}"#]);
    story.set("editor", &["status", "phase"], r#""Off""#);
    story.owners(&[r#"alpha A 01 {"f:data":{"f:a":{}}}"#]);
}

#[test]
fn the_oldest_updaters_are_merged() {
    let mut story = Story::begin();
    story.set("u00", &["data"], r#"{"k00":"v"}"#);
    for n in 1..=11 {
        story.set(&format!("u{n:02}"), &["data", &format!("k{n:02}")], r#""v""#);
    }
    let live = story.live.clone().unwrap();
    let managers: Vec<&str> = entries::entries_of(&live).iter().map(|e| e.str_at(&["manager"])).collect();
    assert_eq!(managers, ["ancient-changes", "u03", "u04", "u05", "u06", "u07", "u08", "u09", "u10", "u11"]);
    assert_eq!(
        text(live.items_at(&["metadata", "managedFields"])[0].get("fieldsV1").unwrap()),
        r#"{"f:data":{".":{},"f:k00":{},"f:k01":{},"f:k02":{}}}"#
    );
    assert_eq!(live.items_at(&["metadata", "managedFields"])[0].str_at(&["time"]), "2026-01-01T00:00:03Z");
}

#[test]
fn kubectl_moves_from_client_side_to_server_side() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let last = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","b":"1"}}"#;
    let mut story = Story::begin();
    story.update("kubectl-client-side-apply", |object| {
        object.set_at(&["data"], tree(r#"{"a":"1","b":"1"}"#));
        object.set_at(&["metadata", "annotations", annotation], last.into());
    });
    story.conflict(
        "other",
        r#"{"data":{"a":"2"}}"#,
        r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.a"#,
    );
    story.apply("kubectl", r#"{"data":{"a":"2"}}"#);
    let live = story.live.clone().unwrap();
    assert_eq!(
        live.str_at(&["metadata", "annotations", annotation]),
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\"}}\n"
    );
    // A field that another manager has changed since is still a conflict.
    story.set("kubectl-edit", &["data", "b"], r#""7""#);
    story.conflict(
        "kubectl",
        r#"{"data":{"a":"3","b":"8"}}"#,
        r#"Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .data.b"#,
    );
}

#[test]
fn fields_are_owned_in_the_version_they_were_written_in() {
    let mut story = Story::begin();
    story.kind.v2 = Some(schema(&CONFIG.replace(r#""data":"#, r#""content":"#)));
    story.apply("alpha", r#"{"data":{"a":"1","b":"1"}}"#);
    let error = story.apply_in("v2", "beta", r#"{"content":{"a":"2"}}"#, false).unwrap_err();
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "alpha": .data.a"#);
    story.apply_in("v2", "alpha", r#"{"content":{"a":"1"}}"#, false).unwrap();
    story.is(r#"{"content":{"a":"1"}}"#);
    story.owners(&[r#"alpha@v2 A 03 {"f:content":{"f:a":{}}}"#]);
    // The managers of a removed version are dropped.
    story.live = Some(story.kind.convert(&story.live.clone().unwrap(), "v1").unwrap());
    story.kind.v2 = None;
    story.apply("beta", r#"{"data":{"a":"2"}}"#);
    story.owners(&[r#"beta A 04 {"f:data":{"f:a":{}}}"#]);
}

#[test]
fn fields_that_another_version_lacks_are_not_applied_while_they_are_owned_there() {
    let mut story = Story::begin();
    story.kind.v2 = Some(schema(&CONFIG.replace(r#""args":"#, r#""others":"#)));
    story.apply_in("v2", "alpha", r#"{"tags":["x"]}"#, false).unwrap();
    story.live = Some(story.kind.convert(&story.live.clone().unwrap(), "v1").unwrap());
    let error = story.apply_in("v1", "beta", r#"{"args":["a"]}"#, false).unwrap_err();
    assert_eq!(error.to_string(), "failed to convert new object: .args: field not declared in schema");
    assert_eq!(error.to_status().code, 500);
    let error = story.apply_in("v1", "alpha", r#"{"args":["a"]}"#, false).unwrap_err();
    let why = "failed to convert merged object to last applied version: .args: field not declared in schema";
    assert_eq!(error.to_string(), format!("failed to prune fields: {why}"));
    story.apply_in("v1", "alpha", r#"{"tags":["y"]}"#, false).unwrap();
    story.owners(&[r#"alpha A 04 {"f:tags":{"v:\"y\"":{}}}"#]);
}

#[test]
fn of_entries_with_one_identity_the_last_one_counts() {
    let mut story = Story::begin();
    story.set("alpha", &["data"], r#"{"a":"1","b":"1"}"#);
    story.set("beta", &["metadata", "managedFields"], r#"[
        {"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:09Z","fieldsType":"FieldsV1",
         "fieldsV1":{"f:data":{"f:a":{}}}},
        {"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:b":{}}}}]"#);
    story.owners(&[r#"m U -- {"f:data":{"f:b":{}}}"#]);
}

#[test]
fn times_stay_where_nothing_else_changes() {
    let old =
        tree(r#"{"data":{"a":"1"},"metadata":{"managedFields":[{"manager":"a","time":"1"}],"name":"c"}}"#);
    let mut new =
        tree(r#"{"data":{"a":"1"},"metadata":{"managedFields":[{"manager":"a","time":"2"}],"name":"c"}}"#);
    assert_eq!(keep_times(&mut new, &old), Comparison::Equal);
    assert_eq!(new, old);
    assert_eq!(keep_times(&mut new, &old), Comparison::UnequalFast);
    new.set_at(&["data", "a"], "2".into());
    new.set_at(&["metadata", "managedFields"], tree(r#"[{"manager":"a","time":"2"}]"#));
    let changed = new.clone();
    assert_eq!(keep_times(&mut new, &old), Comparison::UnequalSlow);
    assert_eq!(new, changed);
    new.set_at(&["metadata", "managedFields"], tree(r#"[{"manager":"b","time":"2"}]"#));
    assert_eq!(keep_times(&mut new, &old), Comparison::UnequalFast);
}

#[test]
fn ownership_of_replicas_goes_to_scale_and_back() {
    let paths = [ReplicasPath { api_version: "v1".into(), path: Some(FieldPath::of(&["spec", "replicas"])) }];
    let parent = tree(
        r#"[{"manager":"a","operation":"Apply","apiVersion":"v1","time":"t","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:paused":{},"f:replicas":{}}}},
            {"manager":"b","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]"#,
    );
    let parent = parent.as_array().unwrap();
    let scale = scale_to_subresource(parent, &paths).unwrap();
    assert_eq!(
        text(&Value::Array(scale.clone())),
        r#"[{"apiVersion":"autoscaling/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}},"manager":"a","operation":"Apply","time":"t"}]"#
    );
    assert_eq!(scale_to_parent(parent, &scale, "v1", &paths).unwrap(), parent);
    let taken = tree(
        r#"[{"manager":"s","operation":"Update","apiVersion":"autoscaling/v1","subresource":"scale","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#,
    );
    let after = scale_to_parent(parent, taken.as_array().unwrap(), "v1", &paths).unwrap();
    let fields: Vec<String> = after
        .iter()
        .map(|e| {
            format!(
                "{} {} {}",
                e.str_at(&["manager"]),
                e.str_at(&["apiVersion"]),
                text(e.get("fieldsV1").unwrap())
            )
        })
        .collect();
    assert_eq!(
        fields,
        [
            r#"a v1 {"f:spec":{"f:paused":{}}}"#,
            r#"b v1 {"f:data":{}}"#,
            r#"s v1 {"f:spec":{"f:replicas":{}}}"#
        ]
    );
}
