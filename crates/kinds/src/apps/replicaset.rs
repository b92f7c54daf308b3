//! ReplicaSet.

use crate::core::podspec::options::Options;
use crate::{Hooks, Scope, facts, workload};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");

pub(crate) struct ReplicaSet;

impl Hooks for ReplicaSet {
    fn complete_empty(&self, object: &mut Value) {
        workload::set_no_replicas(object);
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(workload::spec_of(object), &Options::of_template(None), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            return super::validate_replica_status(workload::status(object), errors);
        }
        let options = Options::of_template(old.at(&["spec", "template"]));
        validate_spec(workload::spec_of(object), &options, errors);
        workload::validate_unchanged_selector(workload::spec_of(object), workload::spec_of(old), errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        super::template_warnings(object, old, true)
    }
}

fn validate_spec(spec: &Value, options: &Options, errors: &mut FieldErrors) {
    facts::check(spec, "apps/v1.ReplicaSetSpec", &SPEC, errors);
    workload::validate_required_selector(spec, "deployment", &SPEC, errors);
    super::validate_replicated_template(spec, options, errors);
}
