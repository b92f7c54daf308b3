//! The results as SARIF 2.1.0, which code hosts display beside the lines of a change.

use super::report::{Finding, number, print, warned_field};
use pintle_value::yaml::Position;
use pintle_value::{Value, percent};
use std::collections::BTreeSet;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// One run with a result for each problem and warning.
pub(super) fn report(found: &[Finding]) -> String {
    let mut results = Vec::new();
    let mut rules = BTreeSet::new();
    for finding in found {
        for problem in finding.problems() {
            let text = format!("{}: {}", finding.title(), problem.text());
            results.push(new_result(&problem.reason, "error", &text, finding, problem.position));
            rules.insert(problem.reason);
        }
        for warning in &finding.warnings {
            let text = format!("{}: {warning}", finding.title());
            let position = finding.place.of(warned_field(warning));
            results.push(new_result("Warning", "warning", &text, finding, position));
            rules.insert("Warning".to_string());
        }
    }
    let mut driver = Value::object();
    driver.set_at(&["name"], "pintle check".into());
    driver.set_at(&["version"], env!("CARGO_PKG_VERSION").into());
    let rule = |id: String| {
        let mut out = Value::object();
        out.set_at(&["id"], id.as_str().into());
        out
    };
    driver.set_at(&["rules"], Value::Array(rules.into_iter().map(rule).collect()));
    let mut run = Value::object();
    run.set_at(&["tool", "driver"], driver);
    // Columns count characters, like the positions of the YAML scanner.
    run.set_at(&["columnKind"], "unicodeCodePoints".into());
    run.set_at(&["results"], Value::Array(results));
    let mut out = Value::object();
    out.set_at(&["$schema"], SCHEMA.into());
    out.set_at(&["version"], "2.1.0".into());
    out.set_at(&["runs"], Value::Array(vec![run]));
    print(&out)
}

fn new_result(rule: &str, level: &str, text: &str, finding: &Finding, position: Position) -> Value {
    let mut location = Value::object();
    let physical = "physicalLocation";
    location.set_at(&[physical, "artifactLocation", "uri"], uri(&finding.place.file).as_str().into());
    location.set_at(&[physical, "region", "startLine"], number(position.line));
    location.set_at(&[physical, "region", "startColumn"], number(position.column));
    let mut out = Value::object();
    out.set_at(&["ruleId"], rule.into());
    out.set_at(&["level"], level.into());
    out.set_at(&["message", "text"], text.into());
    out.set_at(&["locations"], Value::Array(vec![location]));
    out
}

/// A path as a URI reference: other characters are percent-encoded.
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    percent::encode(path.as_bytes(), |byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte))
}

#[cfg(test)]
mod tests {
    #[test]
    fn paths_become_uris() {
        for (path, want) in [("./a/b.yaml", "a/b.yaml"), ("a b#ä.yaml", "a%20b%23%C3%A4.yaml")] {
            assert_eq!(super::uri(path), want);
        }
    }
}
