//! Timestamps and durations: parsing, formatting, arithmetic and calendar parts, with Go's rules.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use pintle_value::calendar::{date_of, days_in, days_to};

mod duration;
mod zone;

pub(crate) use duration::{duration_text, parse_duration, parse_duration_open};

/// 0001-01-01T00:00:00Z
const SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z
const SECONDS_MAX: i64 = 253_402_300_799;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A point in time: seconds and nanoseconds since the epoch, years 1 to 9999. The offset does not matter for equality.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
    /// Offset from UTC in seconds; only the text form shows it.
    pub offset: i32,
}

impl Timestamp {
    /// A timestamp in UTC; `None` outside of the years 1 to 9999.
    pub fn utc(seconds: i64, nanos: u32) -> Option<Timestamp> {
        (SECONDS_MIN..=SECONDS_MAX).contains(&seconds).then_some(Timestamp { seconds, nanos, offset: 0 })
    }

    /// The timestamp `nanos` later.
    /// Go's `time.RFC3339Nano`.
    pub fn rfc3339(self) -> String {
        format(self)
    }

    /// Go's `%#v`: `time.Date(2020, time.January, 2, 3, 4, 5, 0, time.UTC)`.
    pub fn go_syntax(self) -> String {
        let parts = Parts::of(self.seconds.saturating_add(i64::from(self.offset)), self.nanos);
        let Parts { year, month, day, hour, minute, second, .. } = parts;
        let month = usize::try_from(month).ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
        let month = month.copied().unwrap_or_default();
        let zone = if self.offset == 0 { "time.UTC" } else { r#"time.Location("")"# };
        format!("time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, {}, {zone})", self.nanos)
    }

    pub(crate) fn plus(self, nanos: i64) -> Option<Timestamp> {
        let total = i128::from(self.seconds)
            .saturating_mul(i128::from(NANOS_PER_SECOND))
            .saturating_add(i128::from(self.nanos))
            .saturating_add(i128::from(nanos));
        let seconds = i64::try_from(total.div_euclid(i128::from(NANOS_PER_SECOND))).ok()?;
        let nanos = total.rem_euclid(i128::from(NANOS_PER_SECOND)) as u32;
        Timestamp::utc(seconds, nanos).map(|moment| Timestamp { offset: self.offset, ..moment })
    }

    /// The nanoseconds from `other` to this timestamp; `None` if they do not fit.
    pub(crate) fn since(self, other: Timestamp) -> Option<i64> {
        let nanos = i128::from(self.seconds.saturating_sub(other.seconds))
            .saturating_mul(i128::from(NANOS_PER_SECOND))
            .saturating_add(i128::from(self.nanos))
            .saturating_sub(i128::from(other.nanos));
        i64::try_from(nanos).ok()
    }

    /// The calendar parts in a time zone: `UTC`, `Europe/Berlin`, `-08:00`.
    pub(crate) fn parts(self, zone: &str) -> Result<Parts, String> {
        let offset = zone::offset(zone, self.seconds)?;
        Ok(Parts::of(self.seconds.saturating_add(offset), self.nanos))
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

impl Hash for Timestamp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.seconds, self.nanos).hash(state);
    }
}

/// The calendar parts of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// Of the month, from 1.
    pub(crate) day: i64,
    /// Of the year, from 0.
    pub(crate) day_of_year: i64,
    /// From 0 on Sunday.
    pub(crate) weekday: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) nanos: u32,
}

impl Parts {
    /// `seconds` are in local time.
    fn of(seconds: i64, nanos: u32) -> Parts {
        let days = seconds.div_euclid(SECONDS_PER_DAY);
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = date_of(days);
        Parts {
            year,
            month,
            day,
            day_of_year: days.saturating_sub(days_to(year, 1, 1)),
            weekday: days.saturating_add(4).rem_euclid(7),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            nanos,
        }
    }
}

/// Why a text is not a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimestampError {
    /// The text cannot be parsed.
    Unreadable,
    /// The text is outside of the years 1 to 9999.
    OutOfRange,
}

/// Go's `time.Parse(time.RFC3339, text)`: the hour may have one digit, and the fraction may begin with a comma.
pub(crate) fn parse(text: &str) -> Result<Timestamp, TimestampError> {
    let moment = Reader { rest: text }.date_time('T').ok_or(TimestampError::Unreadable)?;
    let in_range = (SECONDS_MIN..=SECONDS_MAX).contains(&moment.seconds);
    if in_range { Ok(moment) } else { Err(TimestampError::OutOfRange) }
}

/// Parses OpenAPI's formats `date-time` and `date`.
pub(crate) fn parse_open(text: &str) -> Option<Timestamp> {
    let date = || {
        let mut reader = Reader { rest: text };
        let days = reader.parse_date()?;
        reader.rest.is_empty().then_some(Timestamp {
            seconds: days.saturating_mul(SECONDS_PER_DAY),
            nanos: 0,
            offset: 0,
        })
    };
    let upper = || Reader { rest: &text.to_ascii_uppercase() }.date_time('T');
    Reader { rest: text }
        .date_time('T')
        .or_else(|| Reader { rest: text }.date_time(' '))
        .or_else(upper)
        .or_else(date)
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    #[expect(clippy::arithmetic_side_effects, reason = "a year has four digits, all else two")]
    fn date_time(&mut self, separator: char) -> Option<Timestamp> {
        let days = self.parse_date()?;
        self.expect_char(separator)?;
        let one_digit = self.rest.as_bytes().get(1).is_some_and(|byte| !byte.is_ascii_digit());
        let hour = self.parse_digits(if one_digit { 1 } else { 2 }, 23)?;
        self.expect_char(':')?;
        let minute = self.parse_digits(2, 59)?;
        self.expect_char(':')?;
        let second = self.parse_digits(2, 59)?;
        let nanos = self.fraction()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return None;
        }
        let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
        Some(Timestamp { seconds, nanos, offset: i32::try_from(offset).ok()? })
    }

    fn parse_date(&mut self) -> Option<i64> {
        let year = self.parse_digits(4, 9999)?;
        self.expect_char('-')?;
        let month = self.parse_digits(2, 12).filter(|month| *month > 0)?;
        self.expect_char('-')?;
        let day = self.parse_digits(2, days_in(year, month)).filter(|day| *day > 0)?;
        Some(days_to(year, month, day))
    }

    fn expect_char(&mut self, char: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(char)?;
        Some(())
    }

    fn parse_digits(&mut self, count: usize, max: i64) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        let value =
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())??;
        self.rest = rest;
        (value <= max).then_some(value)
    }

    /// Parses a fraction; digits after the ninth are dropped.
    fn fraction(&mut self) -> Option<u32> {
        let Some(digits) = self.rest.strip_prefix(['.', ',']) else { return Some(0) };
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = digits.split_at_checked(count)?;
        self.rest = rest;
        format!("{:0<9.9}", digits).parse().ok().filter(|_| count > 0)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "a year has four digits, all else two")]
    fn offset(&mut self) -> Option<i64> {
        if self.expect_char('Z').is_some() {
            return Some(0);
        }
        let sign = if self.rest.starts_with('-') { -1 } else { 1 };
        self.rest = self.rest.strip_prefix(['+', '-'])?;
        let hours = self.parse_digits(2, 24)?;
        self.expect_char(':')?;
        let minutes = self.parse_digits(2, 60)?;
        Some(sign * (hours * 3600 + minutes * 60))
    }
}

/// Go's `time.RFC3339Nano`.
pub(crate) fn format(moment: Timestamp) -> String {
    let parts = Parts::of(moment.seconds.saturating_add(i64::from(moment.offset)), moment.nanos);
    let Parts { year, month, day, hour, minute, second, .. } = parts;
    let fraction = fraction_text(moment.nanos);
    let zone = zone_text(moment.offset, "Z", ":");
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}")
}

/// Go's `time.Time.String()`.
pub(crate) fn format_go(moment: Timestamp) -> String {
    let parts = Parts::of(moment.seconds.saturating_add(i64::from(moment.offset)), moment.nanos);
    let Parts { year, month, day, hour, minute, second, .. } = parts;
    let fraction = fraction_text(moment.nanos);
    let zone = zone_text(moment.offset, "+0000", "");
    let name = if moment.offset == 0 { "UTC" } else { zone.as_str() };
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction} {zone} {name}")
}

fn fraction_text(nanos: u32) -> String {
    if nanos == 0 { String::new() } else { format!(".{nanos:09}").trim_end_matches('0').to_owned() }
}

fn zone_text(offset: i32, utc: &str, separator: &str) -> String {
    if offset == 0 {
        return utc.to_owned();
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.abs() / 60;
    format!("{sign}{:02}{separator}{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_moments() {
        let cases = [
            ("2009-02-13T23:31:30Z", "2009-02-13T23:31:30Z"),
            ("2009-02-13T23:31:30.5+05:30", "2009-02-13T23:31:30.5+05:30"),
            ("2009-02-13T3:31:30,1234567891Z", "2009-02-13T03:31:30.123456789Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
            ("2000-02-29T00:00:00+00:00", "2000-02-29T00:00:00Z"),
        ];
        for (text, written) in cases {
            assert_eq!(parse(text).map(format).as_deref(), Ok(written));
        }
        for text in ["", "2009-02-13", "2009-02-30T00:00:00Z", "2009-02-13T24:00:00Z", "2009-02-13t00:00:00z"]
        {
            assert_eq!(parse(text), Err(TimestampError::Unreadable), "{text}");
        }
        assert_eq!(parse("0000-01-01T00:00:00Z"), Err(TimestampError::OutOfRange));
    }

    #[test]
    fn parts_in_time_zones() {
        let moment = parse("2009-02-13T23:31:30.123Z").unwrap();
        let cases = [
            ("UTC", (2009, 2, 13, 23, 31)),
            ("", (2009, 2, 13, 23, 31)),
            ("Australia/Sydney", (2009, 2, 14, 10, 31)),
            ("Asia/Kathmandu", (2009, 2, 14, 5, 16)),
            ("America/New_York", (2009, 2, 13, 18, 31)),
            ("+11:00", (2009, 2, 14, 10, 31)),
            ("-02:30", (2009, 2, 13, 21, 1)),
            ("02:00", (2009, 2, 14, 1, 31)),
        ];
        for (zone, expected) in cases {
            let parts = moment.parts(zone).unwrap();
            assert_eq!((parts.year, parts.month, parts.day, parts.hour, parts.minute), expected, "{zone}");
        }
        assert_eq!(moment.parts("Nowhere/Else").unwrap_err(), "unknown time zone Nowhere/Else");
        let summer_far_ahead = parse("2090-07-01T00:00:00Z").unwrap();
        assert_eq!(summer_far_ahead.parts("Europe/Berlin").unwrap().hour, 2);
    }

    #[test]
    fn arithmetic() {
        let moment = parse("2009-02-13T23:31:30.5Z").unwrap();
        assert_eq!(moment.plus(-600_000_000).map(format).as_deref(), Some("2009-02-13T23:31:29.9Z"));
        assert_eq!(moment.since(parse("2009-02-13T23:31:29Z").unwrap()), Some(1_500_000_000));
        let last = parse("9999-12-31T23:59:59Z").unwrap();
        assert_eq!(last.plus(NANOS_PER_SECOND), None);
        assert_eq!(last.since(parse("0001-01-01T00:00:00Z").unwrap()), None);
    }
}
