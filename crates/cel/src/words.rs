//! Keywords and reserved words of the language.

/// Words that are reserved for future use.
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

/// Keywords, which the grammar does not accept as identifiers.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Whether an identifier cannot be the name of a variable.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Whether a word cannot be the name of anything.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || is_reserved(word)
}
