//! CronJob.

use super::job;
use crate::core::podspec;
use crate::fill::{absent, zero};
use crate::hooks::take;
use crate::{Hooks, Scope};
use pintle_value::Value;

const POD_SPEC: [&str; 5] = ["spec", "jobTemplate", "spec", "template", "spec"];

pub(crate) struct CronJob;

impl Hooks for CronJob {
    fn default(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        zero(spec, "concurrencyPolicy", "Allow");
        absent(spec, "suspend", false);
        absent(spec, "successfulJobsHistoryLimit", 3);
        absent(spec, "failedJobsHistoryLimit", 1);
        if let Some(job) = spec.at_mut(&["jobTemplate", "spec"]) {
            job::nested_defaults(job);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object.set_at(&["status"], Value::object());
        podspec::disabled::drop_fields(object.at_mut(&POD_SPEC), None);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => {
                take(object, old, &["status"]);
                podspec::disabled::drop_fields(object.at_mut(&POD_SPEC), old.at(&POD_SPEC));
            }
            Scope::Sub("status") => take(object, old, &["spec"]),
            Scope::Sub(_) => {}
        }
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }
}
