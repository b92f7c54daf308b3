//! Durations in nanoseconds, as Go's `time.Duration`.

use crate::number;

/// Nanoseconds of Go's units, longer names before their prefixes.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The additional units of OpenAPI's format, which allow a space between number and unit.
const OPEN_UNITS: [(&str, u64); 28] = [
    ("ns", 1),
    ("nano", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("micro", 1_000),
    ("ms", 1_000_000),
    ("milli", 1_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("hr", 3_600_000_000_000),
    ("hour", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("day", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
    ("wk", 604_800_000_000_000),
    ("week", 604_800_000_000_000),
    ("nanos", 1),
    ("micros", 1_000),
    ("millis", 1_000_000),
    ("secs", 1_000_000_000),
    ("mins", 60_000_000_000),
    ("hrs", 3_600_000_000_000),
    ("hours", 3_600_000_000_000),
    ("days", 86_400_000_000_000),
    ("weeks", 604_800_000_000_000),
];

/// Go's `time.ParseDuration`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = term(rest)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63)?;
        rest = after;
    }
    if negative {
        return Some((total as i64).wrapping_neg());
    }
    i64::try_from(total).ok()
}

/// Parses one number with its unit, in nanoseconds.
fn term(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at_checked(digits(text))?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at_checked(digits(rest))?,
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_len = rest.find(|char: char| char == '.' || char.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(unit_len)?;
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = whole.checked_mul(*scale).filter(|nanos| *nanos <= 1 << 63)?;
    nanos.checked_add(part_of(fraction, *scale)).map(|nanos| (nanos, rest))
}

/// `0.fraction` of a unit, truncated: like Go, digits that no longer fit are dropped.
fn part_of(fraction: &str, scale: u64) -> u64 {
    let (mut value, mut divisor) = (0u64, 1f64);
    for digit in fraction.bytes() {
        let Some(next) =
            value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit.saturating_sub(b'0'))))
        else {
            break;
        };
        if next > i64::MAX as u64 {
            break;
        }
        value = next;
        divisor *= 10.0;
    }
    (value as f64 * (scale as f64 / divisor)) as u64
}

/// Parses OpenAPI's format `duration`: Go's, or numbers with units as words.
pub(crate) fn parse_duration_open(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let mut rest = text.trim();
    let mut total: i64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(count)?;
        let after = after.trim_start();
        let unit_len = after.find(|char: char| !char.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_len)?;
        let unit = unit.to_ascii_lowercase();
        let (_, scale) = OPEN_UNITS.iter().find(|(name, _)| *name == unit)?;
        let part = number.parse::<i64>().ok()?.checked_mul(i64::try_from(*scale).ok()?)?;
        total = total.checked_add(part)?;
        rest = after.trim_start();
    }
    Some(total)
}

/// `string(duration)`: seconds with as many digits as a double has.
pub(crate) fn duration_text(nanos: i64) -> String {
    let whole = nanos / 1_000_000_000;
    let rest = nanos % 1_000_000_000;
    format!("{}s", number::go_plain(whole as f64 + rest as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("0", Some(0)),
            ("1h2m3.5s", Some(3_723_500_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("1us", Some(1_000)),
            (".5s", Some(500_000_000)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("1", None),
            ("", None),
            ("1d", None),
            (".s", None),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
        assert_eq!(parse_duration_open("2 days 3hr"), Some(51 * 3_600_000_000_000));
        assert_eq!(duration_text(1_500_000_000), "1.5s");
    }
}
