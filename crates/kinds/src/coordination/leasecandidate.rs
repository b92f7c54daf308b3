//! LeaseCandidate: a candidate for holding a lease, with its versions.

use super::lease::validate_strategy;
use crate::{Hooks, facts};
use pintle_cel::library::kubernetes::semver::Version;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const OLDEST: &str = "OldestEmulationVersion";

pub(crate) struct LeaseCandidate;

impl Hooks for LeaseCandidate {
    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::is_config_map_key(name)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec");
        let text = |field: &str| object.str_at(&["spec", field]);
        let spec = object.get("spec").unwrap_or(&Value::Null);
        facts::check(spec, "coordination/v1beta1.LeaseCandidateSpec", &path, errors);
        let mut version = |field: &str| {
            let given = Some(text(field)).filter(|given| !given.is_empty())?;
            let parsed = Version::parse(given).ok();
            if parsed.is_none() {
                errors.invalid(&path.field(field), given, "must be a valid semantic version");
            }
            parsed
        };
        let emulated = version("emulationVersion");
        let binary = version("binaryVersion");
        if text("binaryVersion").is_empty() {
            errors.required(&path.field("binaryVersion"), "");
        } else if !text("emulationVersion").is_empty()
            && binary.clone().unwrap_or_default() < emulated.clone().unwrap_or_default()
        {
            let why = "must be greater than or equal to `emulationVersion`";
            errors.invalid(&path.field("binaryVersion"), text("binaryVersion"), why);
        }
        let strategy = text("strategy");
        if strategy.is_empty() {
            return errors.required(&path.field("strategy"), "");
        }
        if strategy == OLDEST && emulated.unwrap_or_default() == Version::default() {
            let why = "must be specified when `strategy` is 'OldestEmulationVersion'";
            errors.required(&path.field("emulationVersion"), why);
        }
        validate_strategy(strategy, &path.field("strategy"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn versions_are_semantic_and_in_order() {
        let candidate = |emulation: &str, binary: &str| {
            let spec = format!(
                r#"{{"spec":{{"leaseName":"l","strategy":"OldestEmulationVersion","emulationVersion":"{emulation}","binaryVersion":"{binary}"}}}}"#
            );
            created(&LeaseCandidate, &spec)
        };
        assert!(candidate("1.2.3", "1.2.3").is_empty());
        assert!(candidate("1.2.3-rc.1", "1.2.3").is_empty());
        assert_eq!(
            candidate("1.3.0", "1.2.9"),
            [
                "spec.binaryVersion: Invalid value: \"1.2.9\": must be greater than or equal to `emulationVersion`"
            ]
        );
        assert_eq!(
            candidate("1.0.0", "1.02.0").first().map(String::as_str),
            Some("spec.binaryVersion: Invalid value: \"1.02.0\": must be a valid semantic version")
        );
    }
}
