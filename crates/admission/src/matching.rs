//! Matches requests to webhooks and policies: rules, selectors, and the version in which they see objects.

use crate::{Attributes, ClusterState, Operation};
use pintle_kinds::KindVersion;
use pintle_meta::selector::LabelSelector;
use pintle_meta::{GroupResource, GroupVersionKind, Status};
use pintle_value::{Str, Value};

/// The kinds that configure admission; webhooks and policies do not apply to them.
const EXEMPT_KINDS: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Returns whether webhooks and policies are skipped, because the request changes their own configuration.
pub fn is_exempt(request: &Attributes<'_>) -> bool {
    request.kind.group == "admissionregistration.k8s.io" && EXEMPT_KINDS.contains(&request.kind.kind.as_str())
}

/// The version of the kind that matched, and its names there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Index among the kind's versions.
    pub version: usize,
    /// Group of the resource.
    pub group: Str,
    /// Version of the resource.
    pub version_name: Str,
    /// Kind of the object; for a subresource with a kind of its own, that kind.
    pub kind: GroupVersionKind,
}

/// Operations, groups, versions and resources that a rule selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    operations: Vec<Str>,
    groups: Vec<Str>,
    versions: Vec<Str>,
    /// Resource and subresource.
    resources: Vec<(Str, Str)>,
    scope: RuleScope,
    /// Names of objects; empty means all.
    names: Vec<Str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RuleScope {
    #[default]
    All,
    Cluster,
    Namespaced,
    Unknown,
}

/// The requests that a webhook or a policy applies to, parsed once.
#[derive(Clone, Debug)]
pub struct Matcher {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    /// Whether other versions of the same resource match as well.
    equivalent: bool,
    /// Whether an empty list of rules matches everything.
    matches_without_rules: bool,
}

impl Matcher {
    /// Reads a webhook.
    pub fn of_webhook(webhook: &Value) -> Self {
        Matcher {
            rules: rules(webhook, "rules"),
            excluded: Vec::new(),
            matches_without_rules: false,
            ..Matcher::of_policy(webhook)
        }
    }

    /// Parses the `matchConstraints` of a policy or the `matchResources` of a binding.
    pub fn of_policy(resources: &Value) -> Self {
        let selector = |key: &str| LabelSelector::from_value(resources.get(key).unwrap_or(&Value::Null));
        Matcher {
            rules: rules(resources, "resourceRules"),
            excluded: rules(resources, "excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            equivalent: resources.str_at(&["matchPolicy"]) == "Equivalent",
            matches_without_rules: true,
        }
    }

    /// Returns the matched version, if the request matches. `object` is the new object; its labels are the same in all
    /// versions. Selector errors are only returned for requests that would match otherwise.
    pub fn matched(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        cluster: &dyn ClusterState,
    ) -> Result<Option<Matched>, Status> {
        let by_namespace = self.selects_namespace(request, object, cluster);
        if matches!(by_namespace, Ok(false)) {
            return Ok(None);
        }
        let by_labels = self.selects_object(request, object);
        if matches!(by_labels, Ok(false)) {
            return Ok(None);
        }
        if self.match_in_version(&self.excluded, request).is_some() {
            return Ok(None);
        }
        let place = if self.rules.is_empty() && self.matches_without_rules {
            own_place(request)
        } else {
            self.match_in_version(&self.rules, request)
        };
        let Some(place) = place else { return Ok(None) };
        by_namespace?;
        by_labels?;
        Ok(Some(place))
    }

    fn selects_namespace(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        cluster: &dyn ClusterState,
    ) -> Result<bool, Status> {
        let about_namespaces = request.kind.plural == "namespaces";
        if request.namespace.is_empty() && !about_namespaces {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(|why| Status::internal(why))?;
        if selector.is_empty() {
            return Ok(true);
        }
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        if about_namespaces && request.subresource.is_empty() && writes {
            return Ok(object.is_some_and(|object| selector.matches_object(object)));
        }
        let namespace = cluster.object("", "namespaces", "", request.namespace);
        let missing = || Status::not_found(&GroupResource::new("", "namespaces"), request.namespace);
        Ok(selector.matches_object(&namespace.ok_or_else(missing)?))
    }

    fn selects_object(&self, request: &Attributes<'_>, object: Option<&Value>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(|why| Status::internal(why))?;
        let mut candidates = [object, request.old].into_iter().flatten();
        Ok(selector.is_empty() || candidates.any(|object| selector.matches_object(object)))
    }

    /// The request's own version if a rule names it, else the first equivalent version that a rule names.
    fn match_in_version(&self, rules: &[Rule], request: &Attributes<'_>) -> Option<Matched> {
        if rules.iter().any(|rule| rule.matches(request, request.version)) {
            return own_place(request);
        }
        if !self.equivalent {
            return None;
        }
        let own = |version: &KindVersion| {
            version.name == request.version.name && version.group == request.version.group
        };
        rules.iter().find_map(|rule| {
            let mut others = request.kind.versions.iter().enumerate().filter(|(_, version)| !own(version));
            let found = others.find(|(_, version)| {
                let is_there =
                    request.subresource.is_empty() || version.subresource(request.subresource).is_some();
                // For custom resources all versions count, for built-in kinds only those that are served.
                let counts = version.served || !version.schema.is_built_in();
                counts && is_there && rule.matches(request, version)
            });
            found.map(|(at, version)| match_in_version(request, at, version))
        })
    }
}

/// The request's own version.
pub fn own_place(request: &Attributes<'_>) -> Option<Matched> {
    let own = request.version;
    let at = request.kind.versions.iter().position(|v| v.name == own.name && v.group == own.group)?;
    Some(match_in_version(request, at, own))
}

fn match_in_version(request: &Attributes<'_>, at: usize, version: &KindVersion) -> Matched {
    Matched {
        version: at,
        group: version.group.clone(),
        version_name: version.name.clone(),
        kind: request.kind_in(version),
    }
}

impl Rule {
    fn matches(&self, request: &Attributes<'_>, version: &KindVersion) -> bool {
        let named = |names: &[Str], name: &str| names.iter().any(|one| one == "*" || one == name);
        let resource = |(resource, sub): &(Str, Str)| {
            let is = |pattern: &str, name: &str| pattern == "*" || pattern == name;
            is(resource, &request.kind.plural) && is(sub, request.subresource)
        };
        self.fits_scope(request)
            && named(&self.operations, request.operation.name())
            && named(&self.groups, &version.group)
            && named(&self.versions, &version.name)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }

    fn fits_scope(&self, request: &Attributes<'_>) -> bool {
        // For a Namespace object, the selector applies to its own labels.
        let is_cluster_wide = request.namespace.is_empty() || request.is("", "namespaces");
        match self.scope {
            RuleScope::All => true,
            RuleScope::Cluster => is_cluster_wide,
            RuleScope::Namespaced => !is_cluster_wide,
            RuleScope::Unknown => false,
        }
    }
}

fn rules(owner: &Value, key: &str) -> Vec<Rule> {
    owner.items_at(&[key]).iter().map(parse_rule).collect()
}

fn parse_rule(rule: &Value) -> Rule {
    let texts = |key: &str| -> Vec<Str> {
        rule.items_at(&[key]).iter().filter_map(Value::as_str).map(Str::from).collect()
    };
    let split = |name: &Str| match name.split_once('/') {
        Some((resource, sub)) => (Str::from(resource), Str::from(sub)),
        None => (name.clone(), Str::default()),
    };
    Rule {
        operations: texts("operations"),
        groups: texts("apiGroups"),
        versions: texts("apiVersions"),
        resources: texts("resources").iter().map(split).collect(),
        scope: match rule.str_at(&["scope"]) {
            "" | "*" => RuleScope::All,
            "Cluster" => RuleScope::Cluster,
            "Namespaced" => RuleScope::Namespaced,
            _ => RuleScope::Unknown,
        },
        names: texts("resourceNames"),
    }
}

#[cfg(test)]
mod tests;
