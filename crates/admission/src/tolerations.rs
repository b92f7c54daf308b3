//! Tolerations of pods: which ones cover others, and how lists are merged.

use pintle_value::Value;

/// Removes tolerations that another one covers. Of equal ones the first remains.
pub(crate) fn merge(all: Vec<Toleration>) -> Vec<Toleration> {
    let mut merged: Vec<Toleration> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let later = all.iter().skip(index.saturating_add(1));
        let is_covered = merged.iter().any(|kept| kept.covers(one))
            || later.clone().any(|other| other != one && other.covers(one));
        if !is_covered {
            merged.push(one.clone());
        }
    }
    merged
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Toleration {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) value: String,
    pub(crate) effect: String,
    pub(crate) seconds: Option<i64>,
}

impl Toleration {
    pub(crate) fn of(tree: &Value) -> Self {
        let text = |key: &str| tree.str_at(&[key]).to_string();
        Toleration {
            key: text("key"),
            operator: text("operator"),
            value: text("value"),
            effect: text("effect"),
            seconds: tree.get("tolerationSeconds").and_then(Value::as_int),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut out = Value::object();
        let texts = [
            ("key", &self.key),
            ("operator", &self.operator),
            ("value", &self.value),
            ("effect", &self.effect),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            out.set_at(&[name], text.as_str().into());
        }
        if let Some(seconds) = self.seconds {
            out.set_at(&["tolerationSeconds"], Value::Int(seconds));
        }
        out
    }

    /// Returns whether this toleration covers the other.
    pub(crate) fn covers(&self, other: &Toleration) -> bool {
        if self == other {
            return true;
        }
        let takes_all_keys = self.key.is_empty() && self.operator == "Exists";
        if other.key != self.key && !takes_all_keys {
            return false;
        }
        if other.effect != self.effect && !self.effect.is_empty() {
            return false;
        }
        if self.effect == "NoExecute"
            && self.seconds.is_some_and(|most| other.seconds.is_none_or(|seconds| seconds > most))
        {
            return false;
        }
        match self.operator.as_str() {
            // As in kube-apiserver, an empty operator means Equal on this side but not on the other.
            "Equal" | "" => other.operator == "Equal" && other.value == self.value,
            operator => operator == "Exists",
        }
    }
}
