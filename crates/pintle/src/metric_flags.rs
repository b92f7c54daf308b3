//! Which metrics are exported: `--disabled-metrics`, `--allow-metric-labels` and `--allow-metric-labels-manifest`.

use crate::config_file;
use crate::flags::{FlagError, Flags};
use pintle_meta::field::quoted;
use pintle_metrics::Selection;
use pintle_value::{Map, Value, json, yaml};
use std::collections::BTreeMap;
use std::path::Path;

/// The field of the manifest in errors.
const MANIFEST_FIELD: &str = "metrics.allowListMappingManifest";
const METRIC: &str = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL: &str = "[a-zA-Z_][a-zA-Z0-9_]*";

/// Reads the flags; errors have kube-apiserver's messages.
pub(crate) fn read(flags: &Flags) -> Result<Selection, Vec<String>> {
    let mut errors = Vec::new();
    let disabled = flags.list("disabled-metrics");
    let names: Value = disabled.iter().map(|name| Value::from(name.as_str())).collect::<Vec<_>>().into();
    if let Some(wrong) = disabled.iter().find(|name| !is_name(name, true)) {
        let (names, pattern) = (json::text(&names), quoted(&format!("^{METRIC}$")));
        errors.push(format!(
            "metrics.disabledMetrics: Invalid value: {names}: must be fully qualified metric names matching {pattern}, \
             got {}",
            quoted(wrong)
        ));
    }
    let mut lists = allowed_values(flags).map_err(|error| vec![error.to_string()])?;
    errors.extend(wrong_keys("metrics.allowListMapping", &lists));
    let manifest = flags.text("allow-metric-labels-manifest");
    if !manifest.is_empty() {
        let read = read_manifest(Path::new(manifest)).unwrap_or_else(|why| {
            errors.push(format!("{MANIFEST_FIELD}: Invalid value: {}: {why}", quoted(manifest)));
            BTreeMap::new()
        });
        if lists.is_empty() {
            lists = read;
        } else {
            let disabled = if disabled.is_empty() {
                String::new()
            } else {
                format!("\"disabledMetrics\":{},", json::text(&names))
            };
            errors.push(format!(
                "metrics: Invalid value: {{{disabled}\"allowListMapping\":{},\"allowListMappingManifest\":{}}}: cannot \
                 specify both allowListMapping and allowListMappingManifest",
                json::text(&lists_json(&lists)),
                json::text(&manifest.into())
            ));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut selection = Selection {
        disabled: disabled.into_iter().collect(),
        // The only valid value is the previous version, and all families that are hidden were deprecated before it.
        shows_hidden: !flags.text("show-hidden-metrics-for-version").is_empty(),
        ..Selection::default()
    };
    for (key, values) in lists {
        let (metric, label) = key.split_once(',').unwrap_or((&key, ""));
        let labels = selection.allowed.entry(metric.to_string()).or_default();
        labels.insert(label.to_string(), values.split(',').map(str::to_string).collect());
    }
    Ok(selection)
}

/// The entries of `--allow-metric-labels`.
pub(crate) fn allowed_values(flags: &Flags) -> Result<BTreeMap<String, String>, FlagError> {
    let mut lists = BTreeMap::new();
    for text in flags.values("allow-metric-labels") {
        lists.extend(pairs(&text).map_err(|why| FlagError::new(&why))?);
    }
    Ok(lists)
}

fn read_manifest(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = config_file::read_limited(path)
        .map_err(|why| format!("failed to read allow list manifest: {why}"))?;
    let parsed = yaml::parse(&text).map_err(|why| format!("failed to parse allow list manifest: {why}"))?;
    let mut lists = BTreeMap::new();
    for (key, value) in parsed.value.as_object().into_iter().flat_map(|map| map.iter()) {
        let Some(values) = value.as_str() else {
            return Err(format!("failed to parse allow list manifest: {key} is not a string"));
        };
        lists.insert(key.to_string(), values.to_string());
    }
    match wrong_keys(MANIFEST_FIELD, &lists) {
        Some(why) => Err(format!("invalid allow list mapping in manifest: [{why}]")),
        None => Ok(lists),
    }
}

/// The error for keys that do not name a metric and a label.
fn wrong_keys(field: &str, lists: &BTreeMap<String, String>) -> Option<String> {
    let is_key = |key: &String| {
        key.split_once(',').is_some_and(|(metric, label)| is_name(metric, true) && is_name(label, false))
    };
    lists.keys().any(|key| !is_key(key)).then(|| {
        format!(
            "{field}: Invalid value: {}: must have keys with format `metricName,labelName` where metricName matches {} \
             and labelName matches {}",
            json::text(&lists_json(lists)),
            quoted(METRIC),
            quoted(LABEL)
        )
    })
}

fn lists_json(lists: &BTreeMap<String, String>) -> Value {
    let mut map = Map::new();
    for (key, values) in lists {
        map.insert(key.as_str(), values.as_str().into());
    }
    map.into()
}

/// Whether a text is the name of a metric, which may have colons, or of a label.
fn is_name(text: &str, is_metric: bool) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || (is_metric && c == ':');
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// The entries of one value of a map flag, as Go's flag library reads it: with one `=` the whole text is one entry,
/// otherwise it is a line of comma-separated values in which quoted ones may have commas.
fn pairs(text: &str) -> Result<BTreeMap<String, String>, String> {
    let items = match text.matches('=').count() {
        0 | 1 => vec![text.trim_matches('"').to_string()],
        _ => comma_separated(text),
    };
    let entry = |item: String| match item.split_once('=') {
        Some((key, value)) => Ok((key.to_string(), value.to_string())),
        None => Err(format!(
            "invalid argument {} for \"--allow-metric-labels\" flag: {item} must be formatted as key=value",
            quoted(text)
        )),
    };
    items.into_iter().map(entry).collect()
}

fn comma_separated(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut is_quoted = false;
    for c in text.chars() {
        match (c, items.last_mut()) {
            ('"', _) => is_quoted = !is_quoted,
            (',', _) if !is_quoted => items.push(String::new()),
            (c, Some(item)) => item.push(c),
            (_, None) => {}
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Invocation, parse};

    fn check(line: &str) -> Result<Selection, String> {
        let flags = match parse(line.split(' ').map(str::to_string)) {
            Ok(Invocation::Serve(flags)) => flags,
            Ok(Invocation::Print(text)) => return Err(text),
            Err(error) => return Err(error.to_string()),
        };
        read(&flags).map_err(|errors| errors.join(", "))
    }

    #[test]
    fn lists_of_allowed_values() {
        for (given, want) in [
            ("a,b=c", vec![("a", "b", vec!["c"])]),
            ("a,b=c,d", vec![("a", "b", vec!["c", "d"])]),
            (r#""a,b=c,d","e:f,g=h""#, vec![("a", "b", vec!["c", "d"]), ("e:f", "g", vec!["h"])]),
        ] {
            let allowed = check(&format!("--allow-metric-labels={given}")).unwrap().allowed;
            let got: Vec<(&str, &str, Vec<&str>)> = allowed
                .iter()
                .flat_map(|(metric, labels)| {
                    labels.iter().map(move |(label, values)| {
                        (metric.as_str(), label.as_str(), values.iter().map(String::as_str).collect())
                    })
                })
                .collect();
            assert_eq!(got, want, "{given}");
        }
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for (line, want) in [
            ("--disabled-metrics=up,4xx", "must be fully qualified metric names matching"),
            ("--allow-metric-labels=a=c", "must have keys with format `metricName,labelName`"),
            ("--allow-metric-labels=a,b:c=d", "must have keys with format `metricName,labelName`"),
            ("--allow-metric-labels=a", "a must be formatted as key=value"),
            (
                "--allow-metric-labels-manifest=/none",
                "failed to read allow list manifest: open /none: no such file",
            ),
        ] {
            let error = check(line).err().unwrap_or_default();
            assert!(error.contains(want), "{line}: {error}");
        }
        assert_eq!(check("--disabled-metrics=up").unwrap().disabled.len(), 1);
    }
}
