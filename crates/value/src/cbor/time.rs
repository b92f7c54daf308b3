//! Tagged times, which become RFC 3339 texts.

use super::DecodeError;
use super::head::{Major, Reader, float};
use crate::Value;
use crate::calendar::{date_of, days_in};

const NANOS_PER_SECOND: f64 = 1e9;
const SECONDS_PER_DAY: i64 = 86_400;

/// Takes the content of tag 0 (text) or 1 (seconds since 1970).
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    let head = reader.head()?;
    let overflow = |number: String| {
        let name = head.major.name();
        DecodeError::invalid(format!(
            "cbor: cannot unmarshal {name} into Go value of type time.Time ({number} overflows Go's int64)"
        ))
    };
    match head.major {
        Major::PositiveInt => match i64::try_from(head.argument) {
            Ok(seconds) => since_epoch(seconds, 0),
            Err(_) => Err(overflow(head.argument.to_string())),
        },
        Major::NegativeInt => match i64::try_from(head.argument) {
            Ok(magnitude) => since_epoch(!magnitude, 0),
            Err(_) => Err(overflow((!i128::from(head.argument)).to_string())),
        },
        Major::Primitive => {
            let seconds = float(head).unwrap_or(0.0);
            if seconds.abs() > i64::MAX as f64 {
                return Err(overflow(seconds.to_string()));
            }
            since_epoch(seconds.trunc() as i64, (seconds.fract() * NANOS_PER_SECOND) as i64)
        }
        _ => time_text(reader, head.length()),
    }
}

fn time_text(reader: &mut Reader<'_>, length: Option<u64>) -> Result<Value, DecodeError> {
    let mut content = Vec::new();
    match length {
        Some(length) => content.extend_from_slice(reader.take(length)?),
        None => {
            while !reader.take_break() {
                let length = reader.head()?.argument;
                content.extend_from_slice(reader.take(length)?);
            }
        }
    }
    let text = String::from_utf8(content).map_err(|_| DecodeError::invalid("cbor: invalid UTF-8 string"))?;
    match normalize(&text) {
        Some(time) => Ok(Value::from(time)),
        None => {
            let message = format!(
                "cbor: cannot set {text} for time.Time: parsing time {0} as \"2006-01-02T15:04:05Z07:00\": \
                 cannot parse {0} as \"2006\"",
                crate::quote::go_quoted(&text)
            );
            Err(DecodeError::invalid(message))
        }
    }
}

/// The same time in Go's form: no trailing zeros in the fraction, `Z` for UTC.
fn normalize(text: &str) -> Option<String> {
    let (date_time, rest) = text.split_at_checked(19)?;
    let shape = "dddd-dd-ddTdd:dd:dd";
    let shaped = date_time.bytes().zip(shape.bytes()).all(|(byte, expected)| match expected {
        b'd' => byte.is_ascii_digit(),
        _ => byte == expected,
    });
    let number =
        |from: usize, to: usize| date_time.get(from..to).and_then(|digits| digits.parse::<i64>().ok());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let in_range = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && number(11, 13)? < 24
        && number(14, 16)? < 60
        && number(17, 19)? < 60;
    let digits =
        rest.strip_prefix(['.', ',']).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let (fraction, zone) =
        if digits > 0 { rest.split_at_checked(digits.saturating_add(1))? } else { ("", rest) };
    let fraction = fraction.get(1..).unwrap_or("").get(..digits.min(9)).unwrap_or("").trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let zone = normalize_zone(zone)?;
    (shaped && in_range).then(|| format!("{date_time}{point}{fraction}{zone}"))
}

fn normalize_zone(zone: &str) -> Option<&str> {
    match zone.as_bytes() {
        [b'Z'] => Some("Z"),
        [b'+' | b'-', h1, h2, b':', m1, m2]
            if [h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit()) =>
        {
            let number = |tens: &u8, ones: &u8| (tens & 0xf).saturating_mul(10).saturating_add(ones & 0xf);
            let (hours, minutes) = (number(h1, h2), number(m1, m2));
            if hours > 24 || minutes > 59 {
                return None;
            }
            Some(if hours == 0 && minutes == 0 { "Z" } else { zone })
        }
        _ => None,
    }
}

fn since_epoch(seconds: i64, nanos: i64) -> Result<Value, DecodeError> {
    let seconds = if nanos < 0 { seconds.saturating_sub(1) } else { seconds };
    let nanos = nanos.rem_euclid(NANOS_PER_SECOND as i64);
    let (days, of_day) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = date_of(days);
    if !(0..=9999).contains(&year) {
        return Err(DecodeError::invalid(
            "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: \
             Time.MarshalText: year outside of range [0,9999]",
        ));
    }
    let fraction = format!(".{nanos:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Ok(Value::from(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")))
}
