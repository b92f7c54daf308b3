//! Parses numbers and truth values as Go's `strconv` does, with its errors for numbers.

use crate::field::quoted;

/// Why a text is not a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// The text has other characters than digits.
    #[error("strconv.{function}: parsing {}: invalid syntax", quoted(.text))]
    Syntax {
        /// Go's function for such numbers.
        function: &'static str,
        /// The input.
        text: String,
    },
    /// The text does not fit 64 bits.
    #[error("strconv.{function}: parsing {}: value out of range", quoted(.text))]
    Range {
        /// Go's function for such numbers.
        function: &'static str,
        /// The input.
        text: String,
    },
}

/// Parses as Go's `strconv.ParseInt(text, 10, 64)` does.
pub fn parse_int(text: &str) -> Result<i64, NumberError> {
    const FUNCTION: &str = "ParseInt";
    let range = || NumberError::Range { function: FUNCTION, text: text.to_string() };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let magnitude = parse_magnitude(digits, text, FUNCTION)?;
    let number = if text.starts_with('-') {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        0_i64.checked_add_unsigned(magnitude)
    };
    number.ok_or_else(range)
}

/// Parses as Go's `strconv.ParseUint(text, 10, 64)` does.
pub fn parse_uint(text: &str) -> Result<u64, NumberError> {
    parse_magnitude(text, text, "ParseUint")
}

/// Parses as Go's `strconv.ParseBool` does.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

fn parse_magnitude(digits: &str, text: &str, function: &'static str) -> Result<u64, NumberError> {
    let syntax = || NumberError::Syntax { function, text: text.to_string() };
    if digits.is_empty() {
        return Err(syntax());
    }
    let mut number: u64 = 0;
    for b in digits.bytes() {
        if !b.is_ascii_digit() {
            return Err(syntax());
        }
        // Go stops at the first digit that overflows, so it reports a range error even if invalid characters follow.
        number = number
            .checked_mul(10)
            .and_then(|n| n.checked_add(u64::from(b.saturating_sub(b'0'))))
            .ok_or_else(|| NumberError::Range { function, text: text.to_string() })?;
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("0", "0"),
            ("+7", "7"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("soon", "strconv.ParseInt: parsing \"soon\": invalid syntax"),
            ("", "strconv.ParseInt: parsing \"\": invalid syntax"),
            ("1_0", "strconv.ParseInt: parsing \"1_0\": invalid syntax"),
            ("9223372036854775808", "strconv.ParseInt: parsing \"9223372036854775808\": value out of range"),
            (
                "99999999999999999999x",
                "strconv.ParseInt: parsing \"99999999999999999999x\": value out of range",
            ),
        ] {
            let got = parse_int(text).map_or_else(|e| e.to_string(), |n| n.to_string());
            assert_eq!(got, expected, "{text}");
        }
        assert_eq!(parse_uint("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(
            parse_uint("-1").map_err(|e| e.to_string()),
            Err("strconv.ParseUint: parsing \"-1\": invalid syntax".to_string())
        );
    }
}
