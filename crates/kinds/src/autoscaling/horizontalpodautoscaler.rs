//! HorizontalPodAutoscaler: stored as v2; v1 has annotations for what it cannot express.

use crate::{Hooks, KindVersion, Scope, workload};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

mod ordered;
mod v1;
mod v1_metrics;
mod validation;

pub(crate) use v1::{default_target, drop_annotations};

/// The default CPU target.
const DEFAULT_CPU_PERCENT: i64 = 80;

pub(crate) struct HorizontalPodAutoscaler;

impl Hooks for HorizontalPodAutoscaler {
    fn field_annotations(&self) -> &'static [&'static str] {
        &v1::ANNOTATIONS
    }

    fn convert(&self, object: &mut Value, from: &KindVersion, to: &KindVersion) {
        match (from.name.as_str(), to.name.as_str()) {
            ("v1", "v2") => v1::to_v2(object),
            ("v2", "v1") => v1::from_v2(object),
            _ => {}
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validation::validate(workload::spec_of(object), None, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            let counters = ["currentReplicas", "desiredReplicas"];
            return workload::validate_counters(
                workload::status(object),
                &counters,
                &Path::of("status"),
                errors,
            );
        }
        validation::validate(workload::spec_of(object), Some(workload::spec_of(old)), errors);
    }
}

fn cpu_utilization(percent: i64) -> Value {
    let mut metric = Value::object();
    metric.set_at(&["type"], "Resource".into());
    metric.set_at(&["resource", "name"], "cpu".into());
    metric.set_at(&["resource", "target", "type"], "Utilization".into());
    metric.set_at(&["resource", "target", "averageUtilization"], percent.into());
    metric
}
