//! Validates requests and limits, of containers and of whole pods.

use super::aggregate::{self, Amounts, amounts, is_huge_page, is_native, is_overcommit_allowed};
use super::options::Options;
use crate::core::resources::QUOTA_RESOURCES;
use crate::error_text::Internal;
use crate::fields::{entries, list, member, quantity, text};
use crate::{check, facts};
use pintle_meta::field::{ErrorKind, Named, quoted};
use pintle_meta::{FieldErrors, Quantity, names};
use pintle_value::{Path, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Resources that are counted.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The owner of the resources, which decides which names are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourcesOwner {
    /// A container.
    Container,
    /// A whole pod.
    Pod,
}

/// The names of a pod's claims.
pub(crate) type Claims<'a> = BTreeSet<&'a str>;

/// Checks requests, limits and claims.
pub(crate) fn validate(
    requirements: &Value,
    owner: ResourcesOwner,
    claims: &Claims<'_>,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let (limit_path, request_path) = (path.field("limits"), path.field("requests"));
    let limits = amounts(requirements.get("limits"));
    let requests = amounts(requirements.get("requests"));
    for (name, amount) in &limits {
        validate_amount(name, amount, owner, &limit_path.key(name), errors);
        validate_huge_page_value(name, amount, &limit_path.key(name), options, errors);
    }
    for (name, amount) in &requests {
        validate_amount(name, amount, owner, &request_path.key(name), errors);
        require_within_limit(name, amount, limits.get(name), &request_path, &limit_path, errors);
        validate_huge_page_value(name, amount, &request_path.key(name), options, errors);
    }
    let named = |test: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| test(name));
    if named(is_huge_page) && !named(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    validate_claim_names(list(requirements, "claims"), claims, &path.field("claims"), errors);
}

fn validate_amount(
    name: &str,
    amount: &Quantity,
    owner: ResourcesOwner,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    match owner {
        ResourcesOwner::Container => validate_container_resource_name(name, path, errors),
        ResourcesOwner::Pod => validate_pod_resource_name(name, path, errors),
    }
    validate_quantity_value(name, amount, path, errors);
}

/// Validates the amount of a resource: not negative, and an integer if the resource is counted.
pub(crate) fn validate_quantity_value(
    name: &str,
    amount: &Quantity,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    check::nonnegative_quantity(path, amount, errors);
    let counted = COUNTED.contains(&name) || is_extended(name);
    if counted && amount.milli_value() % 1000 != 0 {
        errors.invalid(path, amount.to_string().as_str(), "must be an integer");
    }
}

fn require_within_limit(
    name: &str,
    amount: &Quantity,
    limit: Option<&Quantity>,
    request_path: &Path<'_>,
    limit_path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let error_text = amount.to_string();
    match limit {
        Some(limit) if amount != limit && !is_overcommit_allowed(name) => {
            let detail = format!("must be equal to {name} limit of {limit}");
            errors.invalid(request_path, error_text.as_str(), &detail);
        }
        Some(limit) if amount > limit => {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            errors.invalid(request_path, error_text.as_str(), &detail);
        }
        None if !is_overcommit_allowed(name) => {
            errors.required(limit_path, "Limit must be set for non overcommitable resources");
        }
        _ => {}
    }
}

fn validate_huge_page_value(
    name: &str,
    amount: &Quantity,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    if !options.indivisible_huge_pages && !is_huge_page_divisible(name, amount) {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errors.invalid(path, amount.to_string().as_str(), &detail);
    }
}

/// Returns whether an amount of huge pages is a multiple of the page size; true for other resources.
pub(crate) fn is_huge_page_divisible(name: &str, amount: &Quantity) -> bool {
    let Some(size) = name.strip_prefix("hugepages-") else { return true };
    let Ok(page) = Quantity::parse(size) else { return false };
    // A page size beyond 64 bits is truncated and can become zero; kube-apiserver panics there.
    let is_multiple = || amount.value().checked_rem(page.value()) == Some(0);
    page.sign() > 0 && page.milli_value() % 1000 == 0 && is_multiple()
}

/// Returns whether a resource is an extended resource.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::is_qualified_name(&format!("requests.{name}")).is_empty()
}

/// The name of a resource.
pub(crate) fn validate_resource_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let complaints = names::is_qualified_name(name);
    if !complaints.is_empty() {
        for complaint in complaints {
            errors.invalid(path, Named(name), &complaint);
        }
        return;
    }
    let quota_huge_page = is_huge_page(name) || name.starts_with("requests.hugepages-");
    let standard = name == "storage" || QUOTA_RESOURCES.contains(&name) || quota_huge_page;
    if !name.contains('/') && !standard {
        errors.invalid(path, Named(name), "must be a standard resource type or fully qualified");
    }
}

/// The name of a resource that a container can have.
pub(crate) fn validate_container_resource_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_resource_name(name, path, errors);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
            errors.invalid(path, Named(name), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, Named(name), "doesn't follow extended resource name standard");
    }
}

fn validate_pod_resource_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let before = errors.0.len();
    validate_resource_name(name, path, errors);
    if errors.0.len() == before && !aggregate::is_pod_level(name) {
        errors.not_supported(path, Named(name), &["cpu", "hugepages-", "memory"]);
    }
}

/// Claims of a container must be claims of its pod and unique.
fn validate_claim_names(claims: &[Value], known: &Claims<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = SeenClaims::default();
    for (at, claim) in claims.iter().enumerate() {
        let path = path.index(at);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        if seen.keys.contains(name) {
            errors.duplicate(&path, name);
        } else {
            validate_claim_request(name, request, &mut seen, &path, errors);
        }
        // Each of these errors lists all names, so none is made that would be dropped.
        if !known.contains(name) && !errors.is_full() {
            let mut detail = "must be one of the names in pod.spec.resourceClaims".to_string();
            if known.is_empty() {
                detail.push_str(" which is empty");
            } else {
                let names: Vec<&str> = known.iter().copied().collect();
                detail.push_str(&format!(": {}", names.join(", ")));
            }
            errors.push(ErrorKind::NotFound, &path, Some(&quoted(name)), &detail);
        }
    }
}

/// The claims of a container so far.
#[derive(Default)]
struct SeenClaims {
    /// `name`, or `name/request`.
    keys: HashSet<String>,
    /// How many keys begin with a name and a slash.
    requests: HashMap<String, usize>,
}

fn validate_claim_request(
    name: &str,
    request: &str,
    seen: &mut SeenClaims,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let mut key = name.to_string();
    if !request.is_empty() {
        check::dns_label(&path.field("request"), request, errors);
        key = format!("{name}/{request}");
    }
    if seen.keys.contains(&key) {
        errors.duplicate(path, key.as_str());
        return;
    }
    if request.is_empty() {
        for _ in 0..seen.requests.get(name).copied().unwrap_or(0) {
            errors.duplicate(path, name);
        }
    }
    if let Some((base, _)) = key.split_once('/') {
        let count = seen.requests.entry(base.to_string()).or_default();
        *count = count.saturating_add(1);
    }
    seen.keys.insert(key);
}

/// Validates pod-level resources, and that the containers fit in.
pub(crate) fn validate_pod_level(
    spec: &Value,
    claims: &Claims<'_>,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let Some(resources) = member(spec, "resources") else { return };
    let path = path.field("resources");
    if spec.str_at(&["os", "name"]) == "windows" {
        return errors.forbidden(&path, "may not be set for a windows pod");
    }
    if member(resources, "claims").is_some() {
        errors.forbidden(&path.field("claims"), "claims may not be set for Resources at pod-level");
    }
    validate(resources, ResourcesOwner::Pod, claims, &path, options, errors);
    validate_consistency(spec, resources, &path, errors);
}

fn validate_consistency(spec: &Value, resources: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let (requests, limits) = (amounts(resources.get("requests")), amounts(resources.get("limits")));
    let too_little = |own: &Amounts, which: &str, only_huge_pages: bool, errors: &mut FieldErrors| {
        let list = path.field(which);
        for (name, needed) in aggregate::containers(spec, which) {
            let Some(amount) = own.get(&name).filter(|_| !only_huge_pages || is_huge_page(&name)) else {
                continue;
            };
            if needed > *amount {
                let detail =
                    format!("must be greater than or equal to aggregate container {which} of {needed}");
                errors.invalid(&list.key(&name), amount.to_string().as_str(), &detail);
            }
        }
    };
    too_little(&requests, "requests", false, errors);
    too_little(&limits, "limits", true, errors);
    for (at, container) in list(spec, "containers").iter().enumerate() {
        for (name, value) in entries(container.at(&["resources", "limits"])) {
            let (Some(limit), own) = (limits.get(name), quantity(Some(value))) else { continue };
            if own > *limit {
                let containers = path.field("containers");
                let item = containers.index(at);
                let key = item.key(name);
                let detail = format!("must be less than or equal to pod limits of {limit}");
                errors.invalid(&key.field("limits"), own.to_string().as_str(), &detail);
            }
        }
    }
}

/// Checks the claims of a pod.
pub(crate) fn validate_claims(claims: &[Value], mirror: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (at, claim) in claims.iter().enumerate() {
        if mirror {
            errors.forbidden(&Path::of(""), "static pods do not support resource claims");
            continue;
        }
        let path = path.index(at);
        let name = text(claim, "name");
        if name.is_empty() {
            errors.required(&path.field("name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(&path.field("name"), name);
        } else {
            check::dns_label(&path.field("name"), name, errors);
        }
        let (own, template) =
            (member(claim, "resourceClaimName"), member(claim, "resourceClaimTemplateName"));
        let detail = match (own.is_some(), template.is_some()) {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !detail.is_empty() {
            errors.invalid(&path, Internal(Some(claim), "core/v1.PodResourceClaim"), detail);
        }
        facts::check(claim, "core/v1.PodResourceClaim", &path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn faults(requirements: &str, owner: ResourcesOwner) -> Vec<String> {
        let mut errors = FieldErrors::new();
        let path = Path::of("r");
        validate(
            &tree(requirements),
            owner,
            &Claims::from(["known"]),
            &path,
            &Options::default(),
            &mut errors,
        );
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn claims_are_not_compared_one_by_one() {
        let time = |count: usize| {
            let claims: Vec<String> = (0..count).map(|n| format!(r#"{{"name":"c{n}"}}"#)).collect();
            let claims = tree(&format!("[{}]", claims.join(",")));
            let begin = std::time::Instant::now();
            let mut errors = FieldErrors::new();
            let known = Claims::from(["known"]);
            validate_claim_names(claims.as_array().unwrap_or_default(), &known, &Path::of("r"), &mut errors);
            assert_eq!(errors.0.len(), count);
            begin.elapsed()
        };
        // Ten times as many claims take ten times as long, or a hundred times if all are compared with each other. Other
        // processes may disturb some of the measurements.
        assert!((0..5).any(|_| time(5000) < time(500) * 30));
    }

    #[test]
    fn pages_beyond_64_bits_divide_nothing() {
        let amount = |text: &str| Quantity::parse(text).unwrap();
        // The low bits of 10^64 are all zero.
        for page in ["1e64", "1e100", "10000000000000000000000e60"] {
            assert!(!is_huge_page_divisible(&format!("hugepages-{page}"), &amount("4")), "{page}");
        }
        assert!(is_huge_page_divisible("hugepages-2Mi", &amount("4Mi")));
        assert!(!is_huge_page_divisible("hugepages-2Mi", &amount("3Mi")));
    }

    #[test]
    fn requests_limits_and_claims() {
        for (requirements, expected) in [
            (r#"{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}"#, vec![]),
            (
                r#"{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}"#,
                vec![r#"r.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#],
            ),
            (
                r#"{"requests":{"example.com/x":"1"}}"#,
                vec!["r.limits: Required value: Limit must be set for non overcommitable resources"],
            ),
            (
                r#"{"limits":{"example.com/x":"1500m"}}"#,
                vec![r#"r.limits[example.com/x]: Invalid value: "1500m": must be an integer"#],
            ),
            (
                r#"{"limits":{"cpu":"1","hugepages-2Mi":"3Mi"}}"#,
                vec![
                    r#"r.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                ],
            ),
            (
                r#"{"claims":[{"name":"gone"}]}"#,
                vec![
                    r#"r.claims[0]: Not found: "gone": must be one of the names in pod.spec.resourceClaims: known"#,
                ],
            ),
        ] {
            assert_eq!(faults(requirements, ResourcesOwner::Container), expected, "{requirements}");
        }
        assert_eq!(
            faults(r#"{"limits":{"ephemeral-storage":"1"}}"#, ResourcesOwner::Pod),
            [
                r#"r.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory""#
            ]
        );
    }
}
