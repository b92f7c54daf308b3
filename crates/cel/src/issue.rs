//! The errors of an expression and their positions, from the parser, the checker and the validators, printed as cel-go
//! prints them.

use std::fmt;
use std::sync::Arc;

/// Issues beyond this number are counted, not listed.
const ISSUES_MAX: usize = 100;
/// A longer line is not quoted under a message.
const SNIPPET_BYTES_MAX: usize = 16_384;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The issue's position in code points from the start; `None` if it concerns the whole expression.
    pub offset: Option<u32>,
    /// The message, with cel-go's text.
    pub message: String,
}

/// The errors of one expression, in the order of the text. `Display` prints them as cel-go does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    text: Arc<str>,
    issues: Vec<Issue>,
    /// The number of errors that are not listed.
    more: usize,
}

impl std::error::Error for Issues {}

impl Issues {
    pub(crate) fn new(text: Arc<str>) -> Issues {
        Issues { text, issues: Vec::new(), more: 0 }
    }

    pub(crate) fn report(&mut self, offset: Option<u32>, message: impl Into<String>) {
        if self.issues.len() < ISSUES_MAX {
            self.issues.push(Issue { offset, message: message.into() });
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Returns `value` unless there are errors.
    pub(crate) fn unless_any<T>(mut self, value: T) -> Result<T, Issues> {
        if self.issues.is_empty() {
            return Ok(value);
        }
        // The sort is stable: errors at the same position remain in the order in which they were found. Errors without a
        // position come first.
        self.issues.sort_by_key(|issue| issue.offset.map_or(-1, i64::from));
        Err(self)
    }

    /// The errors, without source excerpts.
    pub fn list(&self) -> &[Issue] {
        &self.issues
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            issue.draw_position(&self.text, f)?;
        }
        if self.more > 0 {
            write!(f, "\n{} more errors were truncated", self.more)?;
        }
        Ok(())
    }
}

impl Issue {
    fn draw_position(&self, text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(offset) = self.offset else {
            return write!(f, "ERROR: <input>:-1:0: {}", self.message);
        };
        let (line, column, snippet) = locate(text, offset);
        // For an empty expression, cel-go prints column 0.
        let column_shown = if text.is_empty() { 0 } else { column.saturating_add(1) };
        write!(f, "ERROR: <input>:{line}:{column_shown}: {}", self.message)?;
        if text.is_empty() || snippet.len() > SNIPPET_BYTES_MAX {
            return Ok(());
        }
        let snippet = snippet.replace('\t', " ");
        write!(f, "\n | {snippet}\n | ")?;
        let mut chars = snippet.chars();
        for wide in chars.by_ref().take(column as usize).map(|char| char.len_utf8() > 1) {
            f.write_str(if wide { "\u{ff0e}" } else { "." })?;
        }
        f.write_str(if chars.next().is_some_and(|char| char.len_utf8() > 1) { "\u{ff3e}" } else { "^" })
    }
}

/// The line (from 1), the column (from 0, in code points) and the text of the line at `offset`.
fn locate(text: &str, offset: u32) -> (usize, u32, &str) {
    let (mut line, mut line_start, mut column) = (1_usize, 0, 0_u32);
    for (at, char) in text.char_indices().take(offset as usize) {
        column = column.saturating_add(1);
        if char == '\n' {
            (line, line_start, column) = (line.saturating_add(1), at.saturating_add(1), 0);
        }
    }
    let snippet = text.get(line_start..).and_then(|rest| rest.split('\n').next()).unwrap_or_default();
    (line, column, snippet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing() {
        let mut issues = Issues::new("a +\n\tb == 'é' c".into());
        issues.report(Some(14), "late");
        issues.report(Some(5), "second line");
        issues.report(None, "nowhere");
        let issues = issues.unless_any(()).unwrap_err();
        assert_eq!(
            issues.to_string(),
            "ERROR: <input>:-1:0: nowhere\n\
             ERROR: <input>:2:2: second line\n |  b == 'é' c\n | .^\n\
             ERROR: <input>:2:11: late\n |  b == 'é' c\n | .......\u{ff0e}..^"
        );
    }
}
