//! The results as JUnit XML, which CI systems display as test results: a suite for each file, a case for each object.

use super::report::{Finding, Outcome};
use std::fmt::Write;

/// All suites.
pub(super) fn report(found: &[Finding]) -> String {
    let failed = |finding: &Finding| matches!(finding.outcome, Outcome::Refused(_) | Outcome::Unreadable(_));
    let skipped = |finding: &Finding| matches!(finding.outcome, Outcome::Skipped(_));
    let counts = |all: &[Finding]| {
        format!(
            "tests=\"{}\" failures=\"{}\" skipped=\"{}\"",
            all.len(),
            all.iter().filter(|finding| failed(finding)).count(),
            all.iter().filter(|finding| skipped(finding)).count()
        )
    };
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    _ = writeln!(out, "<testsuites name=\"pintle check\" {}>", counts(found));
    for suite in found.chunk_by(|a, b| a.place.file == b.place.file) {
        let file = suite.first().map_or("", |finding| finding.place.file.as_str());
        _ = writeln!(out, "  <testsuite name=\"{}\" {}>", escaped(file), counts(suite));
        suite.iter().for_each(|finding| write_case(finding, &mut out));
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn write_case(finding: &Finding, out: &mut String) {
    let file = &finding.place.file;
    let line = finding.place.of("").line;
    _ = write!(
        out,
        "    <testcase classname=\"{0}\" name=\"{1}\" file=\"{0}\" line=\"{line}\"",
        escaped(file),
        escaped(&finding.title())
    );
    if let Outcome::Skipped(why) = &finding.outcome {
        _ = writeln!(out, "><skipped message=\"{}\"/></testcase>", escaped(why));
        return;
    }
    let problems = finding.problems();
    let Some(first) = problems.first() else {
        out.push_str("/>\n");
        return;
    };
    let text = |problem: &super::report::Problem| {
        let position = problem.position;
        format!("{file}:{}:{}: {}", position.line, position.column, problem.text())
    };
    let lines: Vec<String> = problems.iter().map(text).collect();
    let (kind, message) = (escaped(&first.reason), escaped(&first.message));
    _ = writeln!(out, ">\n      <failure type=\"{kind}\" message=\"{message}\">{}</failure>", {
        escaped(&lines.join("\n"))
    });
    out.push_str("    </testcase>\n");
}

/// Escapes text for XML. Characters that XML does not allow become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}')
            }
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_are_safe_in_xml() {
        assert_eq!(super::escaped("<a b=\"&\">\n\u{1}"), "&lt;a b=&quot;&amp;&quot;&gt;&#10;\u{fffd}");
    }
}
