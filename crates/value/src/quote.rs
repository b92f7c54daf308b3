//! Text in Go's quotes, as `%q` and `%#v` put it into messages.

use std::fmt::Write;

/// `text` in double quotes with Go's escapes.
pub fn go_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len().saturating_add(2));
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ if is_printable(c) => out.push(c),
            _ => push_escaped(c, &mut out),
        }
    }
    out.push('"');
    out
}

fn push_escaped(c: char, out: &mut String) {
    let code = u32::from(c);
    let written = match code {
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    debug_assert!(written.is_ok(), "a string takes all writes");
}

/// Letters, marks, numbers, punctuation and symbols. Rust's `escape_debug` leaves the same characters unescaped, except
/// marks at the start of a text.
fn is_printable(c: char) -> bool {
    let mut text = String::from("a");
    text.push(c);
    !c.is_ascii_control() && text.escape_debug().eq(text.chars())
}

/// A double as Go's `%v` writes it: the shortest digits that parse to the same value, with an exponent below 1e-4 and
/// from a million on.
pub fn go_general(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        _ => format_g(&format!("{value:e}")),
    }
}

/// A float as Go's `%g` writes it with the fewest digits: with an exponent if that is below -4 or at least
/// [`EXPONENT_FROM`]. `digits` is the float in Rust's `{:e}` form.
pub(crate) fn format_g(digits: &str) -> String {
    let Some((mantissa, exponent)) = digits.split_once('e') else { return digits.to_owned() };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..EXPONENT_FROM).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let significant: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.saturating_add(1);
    if point <= 0 {
        let zeros = "0".repeat(point.unsigned_abs() as usize);
        return format!("{sign}0.{zeros}{significant}");
    }
    let point = point as usize;
    if significant.len() <= point {
        let zeros = "0".repeat(point.saturating_sub(significant.len()));
        return format!("{sign}{significant}{zeros}");
    }
    let (whole, fraction) = significant.split_at(point);
    format!("{sign}{whole}.{fraction}")
}

/// From this exponent on `%g` writes one.
const EXPONENT_FROM: i32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_in_go() {
        for (text, quoted) in [
            ("a\"b\\c'", r#""a\"b\\c'""#),
            ("\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\n\r\t\a\b\v\f""#),
            ("\0\u{1f}\u{7f}", r#""\x00\x1f\x7f""#),
            ("é\u{301}世😀", "\"é\u{301}世😀\""),
            (
                "\u{80}\u{a0}\u{ad}\u{200b}\u{2028}\u{e000}\u{feff}",
                r#""\u0080\u00a0\u00ad\u200b\u2028\ue000\ufeff""#,
            ),
            ("\u{10ffff}", r#""\U0010ffff""#),
        ] {
            assert_eq!(go_quoted(text), quoted);
        }
    }

    #[test]
    fn doubles_print_as_in_go() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (123456.789, "123456.789"),
            (100000.0, "100000"),
            (1000000.0, "1e+06"),
            (123456789.0, "1.23456789e+08"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, text) in cases {
            assert_eq!(go_general(value), text);
        }
    }
}
