//! A cluster of JSON objects, for the tests of plugins.

use crate::{Attributes, ClusterState, Mutation, Operation, Options, Plugin, Validation};
use pintle_auth::UserInfo;
use pintle_kinds::{Kind, builtin};
use pintle_meta::{GroupVersion, Status};
use pintle_value::{Value, json};

/// Objects by resource: `("", "limitranges", tree)`.
pub(crate) struct Objects(pub(crate) Vec<(&'static str, &'static str, Value)>);

impl Objects {
    pub(crate) fn of(objects: &[(&'static str, &'static str, &str)]) -> Self {
        Objects(objects.iter().map(|(group, plural, text)| (*group, *plural, tree(text))).collect())
    }
}

impl ClusterState for Objects {
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.objects(group, plural, namespace).into_iter().find(|o| o.str_at(&["metadata", "name"]) == name)
    }

    fn objects(&self, group: &str, plural: &str, _namespace: &str) -> Vec<Value> {
        let all = self.0.iter().filter(|(g, p, _)| *g == group && *p == plural);
        all.map(|(_, _, object)| object.clone()).collect()
    }

    fn resource(&self, version: &GroupVersion, kind: &str) -> Option<(String, bool)> {
        let found = builtin().kinds.into_iter().find(|k| k.group == version.group && k.kind == kind)?;
        Some((found.plural.to_string(), found.namespaced))
    }

    fn objects_in(&self, version: &GroupVersion, kind: &str, namespace: &str, name: &str) -> Vec<Value> {
        let Some((plural, _)) = self.resource(version, kind) else { return Vec::new() };
        let all = self.0.iter().filter(|(g, p, _)| *g == version.group && *p == plural);
        let objects = all.map(|(_, _, object)| object.clone());
        let is = |object: &Value, key: &str, wanted: &str| {
            wanted.is_empty() || object.str_at(&["metadata", key]) == wanted
        };
        objects.filter(|o| is(o, "namespace", namespace) && is(o, "name", name)).collect()
    }

    fn random(&self) -> u64 {
        0
    }

    fn now(&self) -> i64 {
        0
    }
}

pub(crate) fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

pub(crate) fn text(value: &Value) -> String {
    json::text(value)
}

pub(crate) fn kind(group: &str, plural: &str) -> Kind {
    builtin().kinds.into_iter().find(|k| k.group == group && k.plural == plural).unwrap()
}

/// Runs `work` with a request for `x` in the namespace `n`; an update if there is an old object.
pub(crate) fn with_request<T>(
    kind: &Kind,
    old: Option<&Value>,
    then: impl FnOnce(&Attributes<'_>) -> T,
) -> T {
    let user = UserInfo::new("alice", &["dev"]);
    then(&Attributes {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        kind,
        version: kind.storage_version(),
        namespace: "n",
        name: "x",
        subresource: "",
        old,
        user: &user,
        dry_run: false,
        options: Options::Write { field_manager: "", validation: None },
    })
}

/// The new object after the plugin, or its rejection.
pub(crate) fn admitted(
    plugin: &dyn Plugin,
    kind: &Kind,
    object: &str,
    cluster: &Objects,
) -> Result<(Value, Vec<String>), String> {
    let mut object = tree(object);
    let mut warnings = Vec::new();
    let result: Result<(), Status> = with_request(kind, None, |request| {
        plugin.mutate(Mutation { request, object: &mut object, cluster })?;
        plugin.validate(Validation { request, object: Some(&object), cluster, warnings: &mut warnings })
    });
    result.map(|()| (object, warnings)).map_err(|status| status.message)
}
