//! Points in time: `metav1.Time` and `metav1.MicroTime` as text, with the errors of Go's `time.Parse`. This module reads
//! no clock: callers pass the current time.

use pintle_value::calendar::{date_of, days_in, days_to};
use pintle_value::{Str, Value};

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_SECOND: u32 = 1_000_000_000;
/// 0001-01-01T00:00:00Z, Go's zero time, which is written as `null`.
const ZERO_SECONDS: i64 = -62_135_596_800;
const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const LAYOUT_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Why a text is not a time. The message is that of Go's `time.Parse`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TimeError(String);

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970 in UTC.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanos: u32,
}

impl Timestamp {
    /// The point `seconds` after 1970.
    pub const fn from_seconds(seconds: i64) -> Self {
        Timestamp { seconds, nanos: 0 }
    }

    /// Parses RFC 3339 with or without a fraction, as `metav1.Time` does.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        Parser { value: text, rest: text, layout: LAYOUT, micro: false }.run()
    }

    /// Parses RFC 3339 with a fraction of exactly six digits, as `metav1.MicroTime` does.
    pub fn parse_micro(text: &str) -> Result<Self, TimeError> {
        Parser { value: text, rest: text, layout: LAYOUT_MICRO, micro: true }.run()
    }

    /// Whether this is Go's zero time.
    pub fn is_zero(&self) -> bool {
        self.seconds == ZERO_SECONDS && self.nanos == 0
    }

    /// Formats the time as `2006-01-02T15:04:05Z`.
    pub fn rfc3339(&self) -> Str {
        self.format(None)
    }

    /// Formats the time as `2006-01-02T15:04:05.000000Z`.
    pub fn rfc3339_micro(&self) -> Str {
        self.format(Some(self.nanos / 1000))
    }

    /// The value of a `metav1.Time` in an object: text in whole seconds, or `null` for the zero time.
    pub fn to_value(&self) -> Value {
        if self.is_zero() { Value::Null } else { self.rfc3339().into() }
    }

    /// The value of a `metav1.MicroTime` in an object.
    pub fn to_value_micro(&self) -> Value {
        if self.is_zero() { Value::Null } else { self.rfc3339_micro().into() }
    }

    /// Nanoseconds from `earlier` until this point; saturates at 64 bits.
    pub fn nanos_since(&self, earlier: &Timestamp) -> i64 {
        let seconds = i128::from(self.seconds).saturating_sub(i128::from(earlier.seconds));
        let nanos = seconds
            .saturating_mul(i128::from(NANOS_PER_SECOND))
            .saturating_add(i128::from(self.nanos))
            .saturating_sub(i128::from(earlier.nanos));
        nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    fn format(&self, micros: Option<u32>) -> Str {
        let days = self.seconds.div_euclid(SECONDS_PER_DAY);
        let second = self.seconds.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = date_of(days);
        let sign = if year < 0 { "-" } else { "" };
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = micros.map(|m| format!(".{m:06}")).unwrap_or_default();
        let year = year.unsigned_abs();
        format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z").into()
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

/// Quotes as Go's time errors do: bytes outside printable ASCII as `\xNN`.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for b in text.bytes() {
        match b {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(b));
            }
            b' '..=0x7f => out.push(char::from(b)),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('"');
    out
}

/// Parses a text element by element in the order of the layout, as `time.Parse` does.
struct Parser<'a> {
    value: &'a str,
    rest: &'a str,
    layout: &'static str,
    micro: bool,
}

impl Parser<'_> {
    #[expect(clippy::arithmetic_side_effects, reason = "a year has four digits, all else two")]
    fn run(mut self) -> Result<Timestamp, TimeError> {
        let year = self.parse_year()?;
        self.parse_literal("-")?;
        let month = self.number("01", true, 1, 12, "month")?;
        self.parse_literal("-")?;
        let day = self.number("02", true, 0, 99, "")?;
        self.parse_literal("T")?;
        let hour = self.number("15", false, 0, 23, "hour")?;
        self.parse_literal(":")?;
        let minute = self.number("04", true, 0, 59, "minute")?;
        self.parse_literal(":")?;
        let second = self.number("05", true, 0, 59, "second")?;
        let nanos = if self.micro { self.six_digits()? } else { self.any_digits() };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(self.complaint(&format!(": extra text: {}", quote(self.rest))));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(self.complaint(": day out of range"));
        }
        let seconds = days_to(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        Ok(Timestamp { seconds: seconds - offset, nanos })
    }

    fn complaint(&self, what: &str) -> TimeError {
        TimeError(format!("parsing time {}{what}", quote(self.value)))
    }

    fn parse_error(&self, element: &str) -> TimeError {
        let (layout, rest) = (quote(self.layout), quote(self.rest));
        self.complaint(&format!(" as {layout}: cannot parse {rest} as {}", quote(element)))
    }

    fn take(&mut self, bytes: usize) -> Option<&str> {
        let (head, tail) = self.rest.split_at_checked(bytes)?;
        self.rest = tail;
        Some(head)
    }

    fn digit(&self, at: usize) -> Option<i64> {
        self.rest.as_bytes().get(at).filter(|b| b.is_ascii_digit()).map(|b| i64::from(b.saturating_sub(b'0')))
    }

    fn parse_literal(&mut self, text: &str) -> Result<(), TimeError> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.parse_error(text))?;
        Ok(())
    }

    fn parse_year(&mut self) -> Result<i64, TimeError> {
        let year = (0..4)
            .try_fold(0_i64, |year, at| Some(year.saturating_mul(10).saturating_add(self.digit(at)?)))
            .ok_or_else(|| self.parse_error("2006"))?;
        self.take(4);
        Ok(year)
    }

    /// Parses two digits, or one if the layout allows it.
    fn number(
        &mut self,
        element: &str,
        fixed: bool,
        low: i64,
        high: i64,
        name: &str,
    ) -> Result<i64, TimeError> {
        let number = match (self.digit(0), self.digit(1)) {
            (Some(tens), Some(ones)) => {
                self.take(2);
                tens.saturating_mul(10).saturating_add(ones)
            }
            (Some(one), None) if !fixed => {
                self.take(1);
                one
            }
            _ => return Err(self.parse_error(element)),
        };
        if (low..=high).contains(&number) {
            return Ok(number);
        }
        Err(self.complaint(&format!(": {name} out of range")))
    }

    /// Parses a fraction of any length, if there is one. Digits beyond nanoseconds are dropped.
    fn any_digits(&mut self) -> u32 {
        if !self.rest.starts_with(['.', ',']) || self.digit(1).is_none() {
            return 0;
        }
        self.take(1);
        let mut nanos = 0_u32;
        let mut unit = NANOS_PER_SECOND / 10;
        while let Some(digit) = self.digit(0) {
            nanos = nanos.saturating_add((digit as u32).saturating_mul(unit));
            unit /= 10;
            self.take(1);
        }
        nanos
    }

    fn six_digits(&mut self) -> Result<u32, TimeError> {
        const ELEMENT: &str = ".000000";
        let digits = self.rest.get(1..ELEMENT.len()).filter(|_| self.rest.starts_with(['.', ',']));
        let micros = digits.and_then(|d| d.parse::<i32>().ok()).ok_or_else(|| self.parse_error(ELEMENT))?;
        self.take(ELEMENT.len());
        // Go parses a signed number here; a negative one is out of range.
        u32::try_from(micros)
            .map(|m| m.saturating_mul(1000))
            .map_err(|_| self.complaint(": fractional second out of range"))
    }

    /// Parses `Z`, or an offset in seconds.
    fn zone(&mut self) -> Result<i64, TimeError> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let digits: Option<Vec<i64>> = [1, 2, 4, 5].into_iter().map(|at| self.digit(at)).collect();
        let (Some([h1, h0, m1, m0]), Some(b':')) = (digits.as_deref(), bytes.get(3)) else {
            return Err(self.parse_error(ELEMENT));
        };
        let (hours, minutes) =
            (h1.saturating_mul(10).saturating_add(*h0), m1.saturating_mul(10).saturating_add(*m0));
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.parse_error(ELEMENT)),
        };
        // Go accepts offsets of exactly 24 hours or 60 minutes, because they occur in practice.
        if minutes > 60 {
            return Err(self.complaint(": time zone offset minute out of range"));
        }
        if hours > 24 {
            return Err(self.complaint(": time zone offset hour out of range"));
        }
        self.take(ELEMENT.len());
        Ok(hours.saturating_mul(60).saturating_add(minutes).saturating_mul(60).saturating_mul(sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(result: Result<Timestamp, TimeError>) -> String {
        result.map_or_else(|e| e.to_string(), |t| t.rfc3339_micro().to_string())
    }

    #[test]
    fn times_are_read_and_written_in_utc() {
        for (text, expected) in [
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59.000000Z"),
            ("2024-02-29T23:59:59.1234567891Z", "2024-02-29T23:59:59.123456Z"),
            ("2024-02-29T23:59:59,5Z", "2024-02-29T23:59:59.500000Z"),
            ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00.000000Z"),
            ("2024-01-01T3:30:00Z", "2024-01-01T03:30:00.000000Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500000Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000000Z"),
            ("9999-12-31T23:59:59-24:00", "10000-01-01T23:59:59.000000Z"),
        ] {
            assert_eq!(read(Timestamp::parse(text)), expected, "{text}");
        }
        assert_eq!(Timestamp::parse("0001-01-01T00:00:00Z").unwrap().to_value(), Value::Null);
        assert_eq!(Timestamp::from_seconds(0).to_value(), Value::from("1970-01-01T00:00:00Z"));
        for days in (-800_000..800_000).step_by(97) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_to(year, month, day), days);
        }
    }

    #[test]
    fn errors_name_the_element() {
        let prefix =
            |text: &str| format!("parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse ");
        for (text, expected) in [
            ("x", "\"x\" as \"2006\""),
            ("", "\"\" as \"2006\""),
            ("2024-1-01T00:00:00Z", "\"1-01T00:00:00Z\" as \"01\""),
            ("2024-01", "\"\" as \"-\""),
            ("2020-01-02 03:04:05Z", "\" 03:04:05Z\" as \"T\""),
            ("2020-01-02T03:04:05", "\"\" as \"Z07:00\""),
            ("2020-01-02T03:04:05z", "\"z\" as \"Z07:00\""),
            ("2020-01-02T03:04:05.Z", "\".Z\" as \"Z07:00\""),
        ] {
            assert_eq!(read(Timestamp::parse(text)), prefix(text) + expected, "{text}");
        }
        for (text, expected) in [
            ("2020-13-02T03:04:05Z", ": month out of range"),
            ("2023-02-29T03:04:05Z", ": day out of range"),
            ("2023-02-02T24:04:05Z", ": hour out of range"),
            ("2023-02-02T23:04:60Z", ": second out of range"),
            ("2023-02-02T23:04:05ZZ", ": extra text: \"Z\""),
            ("2023-02-02T23:04:05+25:00", ": time zone offset hour out of range"),
        ] {
            assert_eq!(read(Timestamp::parse(text)), format!("parsing time \"{text}\"{expected}"), "{text}");
        }
        assert!(read(Timestamp::parse("é")).contains(r#"cannot parse "\xc3\xa9" as "2006""#));
    }

    #[test]
    fn micro_times_want_six_digits() {
        assert_eq!(
            read(Timestamp::parse_micro("2020-01-02T03:04:05.000001Z")),
            "2020-01-02T03:04:05.000001Z"
        );
        for (text, rest, element) in [
            ("2020-01-02T03:04:05Z", "Z", ".000000"),
            ("2020-01-02T03:04:05.5Z", ".5Z", ".000000"),
            ("2020-01-02T03:04:05.000000", "", "Z07:00"),
            ("2020-01-02T03:04:05.0000001Z", "1Z", "Z07:00"),
        ] {
            let expected = format!(
                "parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{rest}\" as \"{element}\""
            );
            assert_eq!(read(Timestamp::parse_micro(text)), expected);
        }
    }
}
