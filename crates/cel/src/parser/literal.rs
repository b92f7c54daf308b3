//! The values of literals.

use crate::ast::Literal;

/// `text` is an integer token, `0x` allowed.
pub(super) fn int(text: &str, negative: bool) -> Result<Literal, &'static str> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    let sign = if negative { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{digits}"), radix)
        .map(Literal::Int)
        .map_err(|_| "invalid int literal")
}

/// `text` is an unsigned integer token with its `u`.
pub(super) fn uint(text: &str) -> Result<Literal, &'static str> {
    let text = text.trim_end_matches(['u', 'U']);
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    u64::from_str_radix(digits, radix).map(Literal::Uint).map_err(|_| "invalid uint literal")
}

/// `text` is a float token; a value that is too large is rejected.
pub(super) fn double(text: &str, negative: bool) -> Result<Literal, &'static str> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Literal::Double(if negative { -value } else { value })),
        _ => Err("invalid double literal"),
    }
}

/// `text` is a string token, quotes and prefix included.
pub(super) fn string(text: &str) -> Result<Literal, &'static str> {
    let (content, raw) = content(text);
    if raw || !content.contains('\\') {
        return Ok(Literal::String(content.into()));
    }
    let mut out = String::with_capacity(content.len());
    unescape(&content, false, |unit| match unit {
        Unit::Char(char) => out.push(char),
        Unit::Byte(byte) => out.push(char::from(byte)),
    })?;
    Ok(Literal::String(out.into()))
}

/// `text` is a bytes token, quotes and prefix included.
pub(super) fn bytes(text: &str) -> Result<Literal, &'static str> {
    let (content, raw) = content(text.get(1..).unwrap_or_default());
    if raw {
        return Ok(Literal::Bytes(content.as_bytes().into()));
    }
    let mut out = Vec::with_capacity(content.len());
    unescape(&content, true, |unit| match unit {
        Unit::Char(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        Unit::Byte(byte) => out.push(byte),
    })?;
    Ok(Literal::Bytes(out.into()))
}

/// The text between the quotes, line ends normalized, and whether it is raw.
fn content(text: &str) -> (String, bool) {
    let raw = text.starts_with(['r', 'R']);
    let quoted = if raw { text.get(1..).unwrap_or_default() } else { text };
    let marks =
        if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let content = quoted.get(marks..quoted.len().saturating_sub(marks)).unwrap_or_default();
    (content.replace("\r\n", "\n").replace('\r', "\n"), raw)
}

enum Unit {
    Char(char),
    Byte(u8),
}

fn unescape(content: &str, of_bytes: bool, mut emit: impl FnMut(Unit)) -> Result<(), &'static str> {
    let mut chars = content.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            emit(Unit::Char(char));
            continue;
        }
        let code = |chars: &mut std::str::Chars<'_>, count: usize, radix: u32, start: u32| {
            chars.take(count).try_fold(start, |code, digit| {
                Some(code.saturating_mul(radix).saturating_add(digit.to_digit(radix)?))
            })
        };
        let (code, numeric) = match chars.next() {
            Some('a') => (Some(0x07), false),
            Some('b') => (Some(0x08), false),
            Some('f') => (Some(0x0C), false),
            Some('n') => (Some(0x0A), false),
            Some('r') => (Some(0x0D), false),
            Some('t') => (Some(0x09), false),
            Some('v') => (Some(0x0B), false),
            Some(char @ ('\\' | '\'' | '"' | '`' | '?')) => (Some(u32::from(char)), false),
            Some('x' | 'X') => (code(&mut chars, 2, 16, 0), true),
            Some('u' | 'U') if of_bytes => return Err("unable to unescape string"),
            Some('u') => (code(&mut chars, 4, 16, 0), true),
            Some('U') => (code(&mut chars, 8, 16, 0), true),
            Some(char @ '0'..='3') => {
                (code(&mut chars, 2, 8, u32::from(char).saturating_sub(u32::from('0'))), true)
            }
            _ => return Err("unable to unescape string"),
        };
        let code = code.ok_or("unable to unescape string")?;
        if of_bytes && numeric {
            emit(Unit::Byte(u8::try_from(code).map_err(|_| "unable to unescape string")?));
        } else {
            emit(Unit::Char(char::from_u32(code).ok_or("invalid unicode code point")?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        let cases = [
            (r#""a\n\x41\101é\U0001F600""#, "a\nAAé\u{1F600}"),
            (r"r'\n'", "\\n"),
            ("'''a'\r\nb'''", "a'\nb"),
            (r#""""""""#, ""),
            ("''", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(string(text), Ok(Literal::String(expected.into())), "{text}");
        }
        assert_eq!(string(r"'\ud800'"), Err("invalid unicode code point"));
        assert_eq!(bytes(r"b'\xff\377é'"), Ok(Literal::Bytes([0xff, 0xff, 0xc3, 0xa9].into())));
        assert_eq!(bytes(r"b'\u0041'"), Err("unable to unescape string"));
    }

    #[test]
    fn numbers() {
        assert_eq!(int("9223372036854775808", true), Ok(Literal::Int(i64::MIN)));
        assert_eq!(int("9223372036854775808", false), Err("invalid int literal"));
        assert_eq!(int("0xff", true), Ok(Literal::Int(-255)));
        assert_eq!(uint("0xFFu"), Ok(Literal::Uint(255)));
        assert_eq!(uint("18446744073709551616u"), Err("invalid uint literal"));
        assert_eq!(double("1.99e90000009", false), Err("invalid double literal"));
        assert_eq!(double(".5", true), Ok(Literal::Double(-0.5)));
    }
}
