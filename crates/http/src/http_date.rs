//! Dates in HTTP headers: `Fri, 02 Jan 2026 03:04:05 GMT`.

use pintle_meta::Timestamp;
use pintle_value::calendar::days_to;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECONDS: i64 = 86_400;

/// Arranges the abbreviated weekday and month, the day with two digits, the year and the time `03:04:05` of a moment.
pub(crate) fn arranged(
    time: &Timestamp,
    text: impl FnOnce(&str, &str, &str, &str, &str) -> String,
) -> String {
    let weekday = usize::try_from(time.seconds.div_euclid(DAY_SECONDS).rem_euclid(7)).unwrap_or(0);
    let weekday = DAYS.get(weekday).copied().unwrap_or("");
    let date = time.rfc3339().to_string();
    let part = |from: usize, to: usize| date.get(from..to).unwrap_or("");
    let month = part(5, 7).parse::<usize>().unwrap_or(1).saturating_sub(1);
    let month = MONTHS.get(month).copied().unwrap_or("");
    text(weekday, month, part(8, 10), part(0, 4), part(11, 19))
}

/// The date of a time in seconds since 1970.
pub(crate) fn format(seconds: i64) -> String {
    arranged(&Timestamp::from_seconds(seconds), |weekday, month, day, year, time| {
        format!("{weekday}, {day} {month} {year} {time} GMT")
    })
}

/// The seconds since 1970 of a date; `None` if it has another form.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (_, rest) = text.split_once(", ")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let [day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)?;
    let number = |text: &str, max: i64| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 4;
        text.parse::<i64>().ok().filter(|number| is_number && *number <= max)
    };
    let times: Vec<&str> = time.split(':').collect();
    let [hours, minutes, seconds] = times[..] else { return None };
    let days = days_to(number(year, 9999)?, i64::try_from(month).ok()?.checked_add(1)?, number(day, 31)?);
    let minutes = number(hours, 23)?.checked_mul(60)?.checked_add(number(minutes, 59)?)?;
    let seconds = minutes.checked_mul(60)?.checked_add(number(seconds, 60)?)?;
    days.checked_mul(DAY_SECONDS)?.checked_add(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read() {
        for (seconds, text) in
            [(0, "Thu, 01 Jan 1970 00:00:00 GMT"), (1_767_323_045, "Fri, 02 Jan 2026 03:04:05 GMT")]
        {
            assert_eq!(format(seconds), text);
            assert_eq!(parse(text), Some(seconds));
        }
        for wrong in ["", "Fri, 02 Jan 2026", "Fri, 02 Jan 2026 03:04 GMT", "Fri, +2 Jan 2026 03:04:05 GMT"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
