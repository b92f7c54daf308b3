//! Fills the rules of ClusterRoles that have an `aggregationRule` with those of the roles that it selects. The default
//! roles `admin`, `edit` and `view` have no other rules, so without this they would allow nothing. In a cluster,
//! kube-controller-manager does this.

use crate::feed::Feed;
use pintle_cache::{CloseReason, Item, Object};
use pintle_engine::{Engine, Target};
use pintle_meta::{LabelSelector, Status};
use pintle_value::{Str, Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const ROLES: &str = "/registry/clusterroles/";
/// The name of the controller.
pub(crate) const NAME: &str = "clusterrole-aggregation";
/// The field manager of kube-controller-manager's own writes.
const MANAGER: &str = "clusterrole-aggregation-controller";
/// The pause after all roles were looked at. Changes that arrive meanwhile are handled together.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut feed = Feed::new(engine.storage().cache().watch_resources(&[ROLES]));
    loop {
        aggregate_all(&engine).await;
        tokio::time::sleep(PAUSE).await;
        // Wait for one change and take all others that are there.
        let mut next = feed.next().await;
        while let Some(item) = next {
            match item {
                Item::Closed(CloseReason::Slow) => {
                    feed = Feed::new(engine.storage().cache().watch_resources(&[ROLES]));
                }
                Item::Closed(_) => return,
                Item::Event(_) | Item::InitialEventsEnd(_) | Item::Bookmark(_) => {}
            }
            next = feed.try_next();
        }
    }
}

async fn aggregate_all(engine: &Engine) {
    let Some(resource) = engine.storage().cache().resource(ROLES) else { return };
    let has_rule = |role: &Object| {
        std::str::from_utf8(role.json()).is_ok_and(|text| text.contains("\"aggregationRule\""))
    };
    let names: Vec<Str> =
        resource.view().iter().filter(|role| has_rule(role)).map(|role| Str::from(role.name())).collect();
    for name in names {
        if let Err(status) = aggregate(engine, &name).await {
            tracing::warn!(role = %name, error = %status.message, "a ClusterRole could not be aggregated");
        }
    }
}

/// Applies the rules of the selected roles if they differ from those of the role.
async fn aggregate(engine: &Engine, name: &str) -> Result<(), Status> {
    let Some(target) = role(engine, name) else { return Ok(()) };
    let Some(live) = engine.reader().object_tree(&target)? else { return Ok(()) };
    if live.get("aggregationRule").is_none_or(Value::is_null) {
        return Ok(());
    }
    let mut rules = Vec::new();
    let mut known = HashSet::new();
    for selector in live.items_at(&["aggregationRule", "clusterRoleSelectors"]) {
        let selector = LabelSelector::from_value(selector).map_err(|error| Status::internal(&error))?;
        for selected in selected_names(engine, &selector, name) {
            let Some(target) = role(engine, &selected) else { continue };
            let Some(tree) = engine.reader().object_tree(&target)? else { continue };
            for rule in tree.items_at(&["rules"]) {
                let text = json::bytes(rule);
                if known.insert(text) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    if rules == live.items_at(&["rules"]) {
        return Ok(());
    }
    let mut object = Value::object();
    // With the uid, a role that was deleted in the meantime is not created again.
    object.set_at(&["metadata", "uid"], live.str_at(&["metadata", "uid"]).into());
    object.set_at(&["rules"], Value::Array(rules));
    match engine.writer().apply(&target, MANAGER, object).await {
        // The role was deleted or replaced; that is a change of its own.
        Err(status) if status.code == 409 => Ok(()),
        other => other,
    }
}

/// The names of the other roles that a selector selects, in order.
fn selected_names(engine: &Engine, selector: &LabelSelector, own: &str) -> Vec<Str> {
    let Some(resource) = engine.storage().cache().resource(ROLES) else { return Vec::new() };
    let selects = |role: &Object| {
        let mut requirements = selector.requirements().iter();
        !selector.is_nothing() && requirements.all(|required| required.matches(role.label(required.key())))
    };
    let view = resource.view();
    let mut names: Vec<Str> = view
        .iter()
        .filter(|role| role.name() != own && selects(role))
        .map(|role| Str::from(role.name()))
        .collect();
    names.sort_unstable();
    names
}

fn role(engine: &Engine, name: &str) -> Option<Target> {
    engine.storage().target("rbac.authorization.k8s.io", "v1", "clusterroles", "", name)
}
