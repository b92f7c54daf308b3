//! Words of the language that cannot be names.

/// Words that are kept for what the language may become.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words that mean something by themselves; the grammar does not take them for identifiers.
const MEANINGFUL: [&str; 4] = ["true", "false", "null", "in"];

/// Whether a word that reads like an identifier is no variable.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Whether a word cannot be the name of anything.
pub fn is_keyword(word: &str) -> bool {
    MEANINGFUL.contains(&word) || is_reserved(word)
}
