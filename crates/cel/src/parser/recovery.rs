//! What is wrong with a text that does not parse, in ANTLR's words.

use super::lexer::Lexed;
use crate::env::Options;
use crate::issue::Issues;

/// Reports the syntax errors; `options` are given when the parser failed, not only the lexer.
pub(super) fn explain(_text: &str, lexed: &Lexed, issues: &mut Issues, options: Option<&Options>) {
    for unrecognized in &lexed.unrecognized {
        issues.report(Some(unrecognized.offset), format!("Syntax error: {}", unrecognized.message));
    }
    if options.is_some() {
        issues.report(lexed.tokens.last().map(|token| token.offset), "Syntax error: mismatched input");
    }
}
