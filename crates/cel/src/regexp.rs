//! Go's regular expressions: written anew for ours, and kept once they are compiled.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use pintle_value::Str;
use regex::Regex;

mod syntax;

pub use syntax::error;

/// How many compiled patterns are kept.
const PATTERNS_MAX: usize = 4096;
/// How large a compiled pattern may get.
const PATTERN_BYTES_MAX: usize = 4 << 20;

/// Whether `pattern` is found in `text`. A pattern that cannot be compiled is found nowhere.
pub fn is_match(pattern: &str, text: &str) -> bool {
    compile(pattern).is_ok_and(|regex| regex.is_match(text))
}

/// The compiled pattern, or what Go says is wrong with it: `error parsing regexp: …`.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    static KEPT: OnceLock<Mutex<HashMap<Str, Result<Regex, String>>>> = OnceLock::new();
    let kept = KEPT.get_or_init(Mutex::default);
    let known = |kept: &HashMap<Str, Result<Regex, String>>| kept.get(pattern).cloned();
    if let Some(regex) = known(&kept.lock().unwrap_or_else(PoisonError::into_inner)) {
        return regex;
    }
    let regex = compiled(pattern);
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= PATTERNS_MAX {
        kept.clear();
    }
    kept.insert(pattern.into(), regex.clone());
    regex
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    if let Some(why) = error(pattern) {
        return Err(format!("error parsing regexp: {why}"));
    }
    let built = regex::RegexBuilder::new(&translated(pattern)).size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|err| match err {
        regex::Error::CompiledTooBig(_) => format!("error parsing regexp: expression too large: `{pattern}`"),
        _ => format!("error parsing regexp: invalid escape sequence: `{pattern}`"),
    })
}

/// A pattern of Go's in the words of ours: classes are ASCII there, and brackets within brackets mean themselves.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    let mut class_start = false;
    while let Some(c) = rest.chars().next() {
        let starts = std::mem::take(&mut class_start);
        if c == '\\' {
            rest = escape(rest, in_class, &mut out);
            continue;
        }
        if in_class && rest.starts_with("[:") {
            let end = rest.find(":]").map_or(2, |end| end + 2);
            out.push_str(rest.get(..end).unwrap_or(rest));
            rest = rest.get(end..).unwrap_or("");
            continue;
        }
        match c {
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push(c);
            }
            '^' if starts => {
                class_start = true;
                out.push(c);
            }
            ']' if in_class && !starts => {
                in_class = false;
                out.push(c);
            }
            // A dash before a class stands for itself.
            '-' if in_class && rest.starts_with("-\\") && !rest.starts_with("-\\x") => out.push_str("\\-"),
            '[' | ']' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '{' if !in_class && !is_repetition(rest) => out.push_str("\\{"),
            _ => out.push(c),
        }
        rest = rest.get(c.len_utf8()..).unwrap_or("");
    }
    out
}

/// Whether a brace begins `{2}`, `{2,}` or `{2,3}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inner, _)) = rest.get(1..).and_then(|rest| rest.split_once('}')) else { return false };
    let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

/// Writes what begins with a backslash; answers with what follows.
fn escape<'a>(rest: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let mut chars = rest.chars();
    chars.next();
    let Some(c) = chars.next() else {
        out.push('\\');
        return "";
    };
    if c == 'Q' {
        let quoted = chars.as_str();
        let (quoted, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        out.push_str(&regex::escape(quoted));
        return after;
    }
    let class = match c {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\f\\r ",
        'D' => "^0-9",
        'W' => "^0-9A-Za-z_",
        'S' => "^\\t\\n\\f\\r ",
        'b' if !in_class => {
            out.push_str("(?-u:\\b)");
            return chars.as_str();
        }
        _ => {
            out.push('\\');
            out.push(c);
            return chars.as_str();
        }
    };
    if in_class && !class.starts_with('^') {
        out.push_str(class);
    } else {
        out.push('[');
        out.push_str(class);
        out.push(']');
    }
    chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            ("^[a-z]+$", "abc", true),
            ("[0-9]{2}", "a1b2", false),
            (r"^\d+$", "٣", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            ("^[[a]+$", "[a", true),
            ("^{,2}$", "{,2}", true),
            ("^[[:alpha:]]+$", "ab", true),
            (r"^[a-z0-9-\p{L}]+$", "a-é", true),
            ("(", "x", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }
}
