//! Durations: Go's `time.Duration` as text, and the ages in tables.

use crate::time::{Timestamp, quote};
use pintle_value::Str;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Why a text is not a duration. The message is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time: {0}")]
pub struct DurationError(String);

/// A signed length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

impl GoDuration {
    /// Parses `1h30m`, `-1.5s`, `0`.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError(format!("invalid duration {}", quote(text)));
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if rest == "0" {
            return Ok(GoDuration(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (nanos, tail) = term(text, rest)?;
            total = total.checked_add(nanos).filter(|t| *t <= 1 << 63).ok_or_else(invalid)?;
            rest = tail;
        }
        match (negative, i64::try_from(total)) {
            (false, Ok(nanos)) => Ok(GoDuration(nanos)),
            (true, Ok(nanos)) => Ok(GoDuration(nanos.wrapping_neg())),
            // Only the negative range reaches 2^63.
            (true, Err(_)) => Ok(GoDuration(i64::MIN)),
            (false, Err(_)) => Err(invalid()),
        }
    }

    /// Whole seconds, cut towards zero.
    pub fn seconds(self) -> i64 {
        self.0 / SECOND
    }
}

/// Parses one number with its unit; also returns the rest.
fn term<'a>(text: &str, rest: &'a str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError(format!("invalid duration {}", quote(text)));
    let (whole, after) = split_digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    // Go reads the number before it looks for the unit.
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| invalid())? };
    if whole > 1 << 63 {
        return Err(invalid());
    }
    let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, tail) = after.split_at_checked(end).ok_or_else(invalid)?;
    let scale: u64 = match unit {
        "" => return Err(DurationError(format!("missing unit in duration {}", quote(text)))),
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND as u64,
        "m" => MINUTE as u64,
        "h" => HOUR as u64,
        _ => {
            return Err(DurationError(format!("unknown unit {} in duration {}", quote(unit), quote(text))));
        }
    };
    let nanos = whole.checked_mul(scale).filter(|n| *n <= 1 << 63).ok_or_else(invalid)?;
    Ok((nanos.saturating_add(fraction_of(fraction, scale)), tail))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn fraction_of(digits: &str, scale: u64) -> u64 {
    let (mut number, mut divisor) = (0u64, 1f64);
    for b in digits.bytes() {
        // Digits beyond 63 bits do not change a count of nanoseconds.
        if number > (i64::MAX as u64) / 10 {
            break;
        }
        number = number.saturating_mul(10).saturating_add(u64::from(b & 0xf));
        divisor *= 10.0;
    }
    (number as f64 * (scale as f64 / divisor)) as u64
}

impl std::fmt::Display for GoDuration {
    /// Prints the duration as Go does: `1h0m0s`, `1.5s`, `100ms`, `0s`.
    #[expect(clippy::arithmetic_side_effects, reason = "a second is not zero")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let second = SECOND as u64;
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < second {
            let (unit, scale) = match nanos {
                n if n < 1_000 => ("ns", 1),
                n if n < 1_000_000 => ("µs", 1_000),
                _ => ("ms", 1_000_000),
            };
            return write!(f, "{sign}{}{unit}", decimal(nanos, scale));
        }
        let whole = nanos / second;
        let (hours, minutes) = (whole / 3600, whole / 60 % 60);
        let seconds = decimal(nanos % (60 * second), second);
        match (hours, minutes) {
            (0, 0) => write!(f, "{sign}{seconds}s"),
            (0, minutes) => write!(f, "{sign}{minutes}m{seconds}s"),
            (hours, minutes) => write!(f, "{sign}{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// `amount / scale` without trailing zeros.
#[expect(clippy::arithmetic_side_effects, reason = "no scale is zero")]
fn decimal(amount: u64, scale: u64) -> String {
    let (whole, rest) = (amount / scale, amount % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    format!("{whole}.{rest:0width$}").trim_end_matches('0').to_string()
}

/// A duration in two or three significant figures, as tables print ages: `5m30s`, `3d4h`, `2y10d`.
pub fn human(duration: GoDuration) -> Str {
    let seconds = duration.seconds();
    if seconds < -1 {
        return "<invalid>".into();
    }
    if seconds < 0 {
        return "0s".into();
    }
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, big_unit: char, small: i64, small_unit: char| match small {
        0 => format!("{big}{big_unit}"),
        small => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, 'd', hours % 24, 'h'),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
    .into()
}

/// The age in a table of an object created at `created` (a time as text); `<unknown>` if there is none.
pub fn age(created: &str, now: &Timestamp) -> Str {
    match Timestamp::parse(created) {
        Ok(time) if !time.is_zero() => human(GoDuration(now.nanos_since(&time))),
        _ => "<unknown>".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, expected) in [
            ("0", "0s"),
            ("1h", "1h0m0s"),
            ("90m", "1h30m0s"),
            ("1.5s", "1.5s"),
            ("-1.5h", "-1h30m0s"),
            ("100ms", "100ms"),
            ("1us", "1µs"),
            ("1µs2ns", "1.002µs"),
            (".5s", "500ms"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            ("1", "time: missing unit in duration \"1\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
        ] {
            let got = GoDuration::parse(text).map_or_else(|e| e.to_string(), |d| d.to_string());
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (8 * 3600 - 60, "7h59m"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (729 * 86_400, "729d"),
            (731 * 86_400, "2y1d"),
            (3000 * 86_400, "8y"),
        ] {
            assert_eq!(human(GoDuration(seconds * SECOND)), expected, "{seconds}");
        }
        let now = Timestamp::from_seconds(100);
        assert_eq!(age("1970-01-01T00:00:10Z", &now), "90s");
        assert_eq!(age("", &now), "<unknown>");
    }
}
