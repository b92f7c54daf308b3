//! StorageClass: provisioner, policies and topologies, most of them immutable.

use super::parameters::{validate_parameters, validate_provisioner};
use crate::fields::{list, text, texts};
use crate::node::labels::deprecation;
use crate::{Hooks, facts};
use pintle_meta::FieldErrors;
use pintle_meta::selector::label_validation::validate_label_name;
use pintle_value::{Path, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) struct StorageClass;

impl Hooks for StorageClass {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_provisioner(text(object, "provisioner"), &Path::of("provisioner"), errors);
        validate_parameters(object, true, errors);
        facts::check(object, "storage/v1.StorageClass", &Path::ROOT, errors);
        validate_topologies(list(object, "allowedTopologies"), &Path::of("allowedTopologies"), errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        for (i, term) in list(object, "allowedTopologies").iter().enumerate() {
            for (j, expression) in list(term, "matchLabelExpressions").iter().enumerate() {
                if let Some(advice) = deprecation(text(expression, "key")) {
                    out.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {advice}"));
                }
            }
        }
        out
    }
}

/// The values of each key.
type Term<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn validate_topologies(terms: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    // How often each term was there.
    let mut seen: HashMap<Term<'_>, usize> = HashMap::new();
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i);
        let path = path.field("matchLabelExpressions");
        let values = validate_term(term, &path, errors);
        // kube-apiserver also compares with as many empty terms as there are terms.
        let empty = if values.is_empty() { terms.len() } else { 0 };
        let repeated = seen.entry(values).or_default();
        for _ in 0..repeated.saturating_add(empty) {
            if errors.is_full() {
                break;
            }
            errors.duplicate(&path, "");
        }
        *repeated = repeated.saturating_add(1);
    }
}

fn validate_term<'a>(term: &'a Value, path: &Path<'_>, errors: &mut FieldErrors) -> Term<'a> {
    let mut out = Term::new();
    for (i, requirement) in list(term, "matchLabelExpressions").iter().enumerate() {
        let path = path.index(i);
        let key = text(requirement, "key");
        let values = texts(requirement, "values");
        let at = path.field("values");
        if values.is_empty() {
            errors.required(&at, "");
        }
        let mut set = BTreeSet::new();
        for (j, value) in values.into_iter().enumerate() {
            if !set.insert(value) {
                errors.duplicate(&at.index(j), value);
            }
        }
        validate_label_name(key, &path.field("key"), errors);
        if out.insert(key, set).is_some() {
            errors.duplicate(&path.field("key"), key);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn topologies_are_complete_and_unique() {
        assert_eq!(
            created(
                &StorageClass,
                r#"{"provisioner":"p","volumeBindingMode":"Immediate","allowedTopologies":[{"matchLabelExpressions":[{"key":"k","values":["a","a"]},{"key":"k","values":[]}]}]}"#
            ),
            [
                r#"allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a""#,
                "allowedTopologies[0].matchLabelExpressions[1].values: Required value",
                r#"allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "k""#,
            ]
        );
    }
}
