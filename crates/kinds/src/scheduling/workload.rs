//! Workload: the pod groups of a workload, which are immutable.

use super::podgroup::{validate_resources, validate_unique};
use crate::{Hooks, Scope, check, facts, features};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

const TEMPLATES_MAX: usize = 8;
const TEMPLATE: &str = "scheduling/v1alpha2.PodGroupTemplate";
const SPEC: Path<'static> = Path::of("spec");

pub(crate) struct Workload;

impl Hooks for Workload {
    fn prepare_create(&self, object: &mut Value) {
        drop_disabled(object, None);
    }

    fn prepare_update(&self, _scope: Scope<'_>, object: &mut Value, old: &Value) {
        drop_disabled(object, Some(old));
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        if let Some(controller) = object.at(&["spec", "controllerRef"]).filter(|c| !c.is_null()) {
            let at = SPEC.field("controllerRef");
            facts::check(controller, "scheduling/v1alpha2.TypedLocalObjectReference", &at, errors);
        }
        validate_templates(object, errors);
    }

    /// All fields are immutable. kube-apiserver does not validate unchanged ones again.
    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        for field in ["controllerRef", "podGroupTemplates"] {
            if object.at(&["spec", field]) == old.at(&["spec", field]) {
                continue;
            }
            errors.invalid(&SPEC.field(field), None::<&Value>, check::IMMUTABLE);
            if field == "podGroupTemplates" {
                has_right_number_of_templates(object, errors);
            }
        }
    }
}

/// Templates have no stable key, so the template at the same index is the old one.
fn drop_disabled(object: &mut Value, old: Option<&Value>) {
    let path = ["spec", "podGroupTemplates"];
    let Some(templates) = object.at_mut(&path).and_then(Value::as_array_mut) else { return };
    let before = old.map(|old| old.items_at(&path)).unwrap_or_default();
    for (at, template) in templates.iter_mut().enumerate() {
        features::drop_disabled_of(("scheduling", "PodGroupTemplate"), template, before.get(at));
    }
}

fn has_right_number_of_templates(object: &Value, errors: &mut FieldErrors) -> bool {
    let at = SPEC.field("podGroupTemplates");
    let count = object.items_at(&["spec", "podGroupTemplates"]).len();
    match count {
        0 => errors.required(&at, ""),
        count if count > TEMPLATES_MAX => errors.too_many(&at, count, TEMPLATES_MAX),
        _ => return true,
    }
    false
}

fn validate_templates(object: &Value, errors: &mut FieldErrors) {
    if !has_right_number_of_templates(object, errors) {
        return;
    }
    let templates = object.items_at(&["spec", "podGroupTemplates"]);
    let path = SPEC.field("podGroupTemplates");
    validate_unique(templates, TEMPLATE, &path, errors);
    for (at, template) in templates.iter().enumerate() {
        let path = path.index(at);
        facts::check(template, TEMPLATE, &path, errors);
        validate_resources(template, &path, errors);
    }
}
