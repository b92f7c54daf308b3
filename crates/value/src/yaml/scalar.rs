//! The types of plain scalars: go-yaml's reading of YAML 1.1, with its exceptions.

/// A scalar with its resolved type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer that does not fit an `i64`.
    Uint(u64),
    Float(f64),
    /// A text when read; it must be quoted when written as text.
    Timestamp,
    Text,
}

/// Resolves the type and value of `text`.
pub(super) fn resolve(text: &str) -> Scalar {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            resolve_word(text)
        }
        Some(b'.') => special_float(text).or_else(|| decimal_float(text)).unwrap_or(Scalar::Text),
        Some(b'0'..=b'9' | b'+' | b'-') => resolve_number(text),
        Some(_) => Scalar::Text,
    }
}

fn resolve_word(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => Scalar::Text,
    }
}

fn special_float(text: &str) -> Option<Scalar> {
    let value = match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    };
    Some(Scalar::Float(value))
}

fn resolve_number(text: &str) -> Scalar {
    if is_timestamp(text) {
        return Scalar::Timestamp;
    }
    let plain = text.replace('_', "");
    special_float(text).or_else(|| integer(&plain)).or_else(|| decimal_float(&plain)).unwrap_or(Scalar::Text)
}

/// Integers in Go's notations: decimal, and with the prefixes `0x`, `0o`, `0b` or just `0` (octal).
fn integer(text: &str) -> Option<Scalar> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let signed = digits.len() < text.len();
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    let int =
        if negative { 0i64.checked_sub_unsigned(magnitude) } else { 0i64.checked_add_unsigned(magnitude) };
    match int {
        Some(int) => Some(Scalar::Int(int)),
        None if signed => None,
        None => Some(Scalar::Uint(magnitude)),
    }
}

/// `[-+]? (.d+ | d+ (.d*)?) ([eE] [-+]? d+)?`, if it is in range.
fn decimal_float(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (unsigned.get(..at)?, Some(unsigned.get(at.saturating_add(1)..)?)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let mantissa_right = all_digits(whole)
        && all_digits(fraction.unwrap_or(""))
        && !(whole.is_empty() && fraction.unwrap_or("").is_empty());
    let exponent_right = exponent.is_none_or(|digits| {
        let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
        !digits.is_empty() && all_digits(digits)
    });
    if !(mantissa_right && exponent_right) {
        return None;
    }
    text.parse::<f64>().ok().filter(|float| float.is_finite()).map(Scalar::Float)
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether YAML 1.1 would read this as a base-60 number. go-yaml does not, but quotes such text for other parsers.
pub(super) fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (groups, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut groups = groups.split(':');
    let first = groups.next().unwrap_or("");
    let rest: Vec<&str> = groups.collect();
    let digit_or_gap = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(digit_or_gap)
        && !rest.is_empty()
        && rest.iter().all(|group| match group.as_bytes() {
            [units] => units.is_ascii_digit(),
            [tens, units] => (b'0'..=b'5').contains(tens) && units.is_ascii_digit(),
            _ => false,
        })
        && fraction.bytes().all(digit_or_gap)
}

/// Whether this is a date, alone or with a time of day, in one of the forms go-yaml knows.
fn is_timestamp(text: &str) -> bool {
    let mut rest = Digits(text.as_bytes());
    if rest.parse_date().is_none() {
        return false;
    }
    if rest.0.is_empty() {
        return true;
    }
    let zoned = match rest.0.first() {
        Some(b'T' | b't') => true,
        Some(b' ') => false,
        _ => return false,
    };
    rest.0 = rest.0.get(1..).unwrap_or_default();
    rest.time_of_day().is_some() && (!zoned || rest.parse_zone().is_some()) && rest.0.is_empty()
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The unparsed rest of a timestamp.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn expect_byte(&mut self, expected: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        (*first == expected).then_some(())
    }

    fn take_digit(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first()?;
        let digit = char::from(*first).to_digit(10)?;
        self.0 = rest;
        Some(digit)
    }

    fn exactly(&mut self, count: usize) -> Option<u32> {
        (0..count)
            .try_fold(0_u32, |number, _| Some(number.saturating_mul(10).saturating_add(self.take_digit()?)))
    }

    fn one_or_two(&mut self, max: u32) -> Option<u32> {
        let first = self.take_digit()?;
        let number =
            self.take_digit().map_or(first, |second| first.saturating_mul(10).saturating_add(second));
        (number <= max).then_some(number)
    }

    fn parse_date(&mut self) -> Option<()> {
        let year = self.exactly(4)?;
        self.expect_byte(b'-')?;
        let month = self.one_or_two(12)?;
        self.expect_byte(b'-')?;
        let day = self.one_or_two(31)?;
        (month >= 1 && day >= 1 && day <= days_in(year, month)).then_some(())
    }

    fn time_of_day(&mut self) -> Option<()> {
        self.one_or_two(23)?;
        self.expect_byte(b':')?;
        self.one_or_two(59)?;
        self.expect_byte(b':')?;
        self.one_or_two(59)?;
        if let [b'.' | b',', b'0'..=b'9', ..] = self.0 {
            self.0 = self.0.get(1..)?;
            while self.take_digit().is_some() {}
        }
        Some(())
    }

    fn parse_zone(&mut self) -> Option<()> {
        let (sign, rest) = self.0.split_first()?;
        self.0 = rest;
        match sign {
            b'Z' => Some(()),
            b'+' | b'-' => {
                let hours = self.exactly(2)?;
                self.expect_byte(b':')?;
                let minutes = self.exactly(2)?;
                (hours <= 24 && minutes < 60).then_some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quote::format_g;

    #[test]
    fn scalars_are_resolved_as_go_yaml_does() {
        for (text, meaning) in [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("Null", Scalar::Null),
            ("nULL", Scalar::Text),
            ("y", Scalar::Bool(true)),
            ("On", Scalar::Bool(true)),
            ("NO", Scalar::Bool(false)),
            ("off", Scalar::Bool(false)),
            ("yEs", Scalar::Text),
            ("<<", Scalar::Text),
            ("0", Scalar::Int(0)),
            ("-0", Scalar::Int(0)),
            ("+12", Scalar::Int(12)),
            ("1_000", Scalar::Int(1000)),
            ("0777", Scalar::Int(511)),
            ("0o777", Scalar::Int(511)),
            ("0x1F", Scalar::Int(31)),
            ("-0x1f", Scalar::Int(-31)),
            ("0b101", Scalar::Int(5)),
            ("08", Scalar::Float(8.0)),
            ("0x", Scalar::Text),
            ("0x-1", Scalar::Text),
            ("9223372036854775807", Scalar::Int(i64::MAX)),
            ("18446744073709551615", Scalar::Uint(u64::MAX)),
            ("18446744073709551616", Scalar::Float(18_446_744_073_709_551_616.0)),
            ("1.", Scalar::Float(1.0)),
            (".5", Scalar::Float(0.5)),
            ("1e3", Scalar::Float(1000.0)),
            ("-1.5E-3", Scalar::Float(-0.0015)),
            ("1e", Scalar::Text),
            ("1e999", Scalar::Text),
            (".", Scalar::Text),
            ("-", Scalar::Text),
            ("-.inf", Scalar::Float(f64::NEG_INFINITY)),
            ("1.2.3", Scalar::Text),
            ("1:30", Scalar::Text),
            ("2001-1-2", Scalar::Timestamp),
            ("2001-02-29", Scalar::Text),
            ("2008-01-01T01:01:01Z", Scalar::Timestamp),
            ("2008-01-01t1:1:1.5+02:00", Scalar::Timestamp),
            ("2008-01-01 01:01:01", Scalar::Timestamp),
            ("2008-01-01 01:01:01Z", Scalar::Text),
            ("2008-01-01T01:01:01", Scalar::Text),
            ("2008-01-01T24:01:01Z", Scalar::Text),
        ] {
            assert_eq!(resolve(text), meaning, "{text}");
        }
        assert!(matches!(resolve(".NaN"), Scalar::Float(float) if float.is_nan()));
    }

    #[test]
    fn floats_are_formatted_as_g_does() {
        for (float, text) in [
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.5, "123456.5"),
            (100_000.0, "100000"),
            (1_234_567.5, "1.2345675e+06"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(format_g(&format!("{float:e}")), text);
        }
    }

    #[test]
    fn base_60_is_recognised() {
        for (text, expected) in [
            ("1:30", true),
            ("-1_0:59:9.5_", true),
            ("1:60", false),
            ("1:5a", false),
            ("10", false),
            (":30", false),
            ("1:", false),
        ] {
            assert_eq!(is_base60(text), expected, "{text}");
        }
    }
}
