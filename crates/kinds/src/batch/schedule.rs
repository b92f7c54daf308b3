//! Parses the schedules of CronJobs (five cron fields and descriptors), with the errors of kube-apiserver's parser.

use super::timezone;
use pintle_meta::duration::GoDuration;
use pintle_meta::field::quoted;

/// A field of a schedule: its lowest and highest number, and names for them.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: &MONTHS },
    Bounds { min: 0, max: 6, names: &DAYS },
];
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The error of an invalid schedule.
pub(super) fn complaint(schedule: &str) -> Option<String> {
    parse(schedule).err()
}

fn parse(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_string());
    }
    let spec = without_zone(schedule)?;
    if spec.starts_with('@') {
        return check_descriptor(spec);
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let list = fields.join(" ");
        return Err(format!("expected exactly {} fields, found {}: [{list}]", FIELDS.len(), fields.len()));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for expression in field.split(',').filter(|e| !e.is_empty()) {
            check_range(expression, bounds)?;
        }
    }
    Ok(())
}

/// Strips a leading `TZ=` or `CRON_TZ=`.
fn without_zone(schedule: &str) -> Result<&str, String> {
    let Some(rest) = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) else {
        return Ok(schedule);
    };
    let Some((zone, rest)) = rest.split_once(' ') else {
        let eq = schedule.find('=').map_or(1, |at| at.saturating_add(1));
        return Err(format!("invalid schedule format: runtime error: slice bounds out of range [{eq}:-1]"));
    };
    if !zone.is_empty() && !timezone::is_known(zone) {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Ok(rest.trim())
}

fn check_descriptor(spec: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&spec) {
        return Ok(());
    }
    match spec.strip_prefix("@every ") {
        Some(duration) => match GoDuration::parse(duration) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to parse duration {spec}: {error}")),
        },
        None => Err(format!("unrecognized descriptor: {spec}")),
    }
}

fn check_range(expression: &str, bounds: &Bounds) -> Result<(), String> {
    let range_and_step: Vec<&str> = expression.split('/').collect();
    let low_and_high: Vec<&str> = range_and_step.first().unwrap_or(&"").split('-').collect();
    let (start, mut end) = match low_and_high.as_slice() {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [one] => {
            let start = number_or_name(one, bounds)?;
            (start, start)
        }
        [low, high] => (number_or_name(low, bounds)?, number_or_name(high, bounds)?),
        _ => {
            number_or_name(low_and_high.first().unwrap_or(&""), bounds)?;
            return Err(format!("too many hyphens: {expression}"));
        }
    };
    let step = match range_and_step.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = parse_number(step)?;
            if low_and_high.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {expression}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {expression}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expression}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().position(|n| *n == name) {
        Some(at) => Ok(bounds.min.saturating_add(at as u64)),
        None => parse_number(text),
    }
}

fn parse_number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        let quoted_text = quoted(text);
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted_text}: invalid syntax"
        ));
    }
    let Ok(number) = text.strip_prefix('+').unwrap_or(text).parse::<i64>() else {
        let quoted_text = quoted(text);
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted_text}: value out of range"
        ));
    };
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn schedules_are_judged_as_by_kube_apiserver() {
        for (schedule, expected) in [
            ("* * * * *", None),
            ("*/5 0-6,12 1 jan-Mar mon", None),
            ("@hourly", None),
            ("@every 1h30m", None),
            ("TZ=UTC * * * * *", None),
            ("x", Some("expected exactly 5 fields, found 1: [x]")),
            ("61 * * * *", Some("end of range (61) above maximum (59): 61")),
            ("* * 0 * *", Some("beginning of range (0) below minimum (1): 0")),
            ("5-3 * * * *", Some("beginning of range (5) beyond end of range (3): 5-3")),
            ("*/0 * * * *", Some("step of range should be a positive number: */0")),
            ("1-2-3 * * * *", Some("too many hyphens: 1-2-3")),
            ("1/2/3 * * * *", Some("too many slashes: 1/2/3")),
            ("@sometimes", Some("unrecognized descriptor: @sometimes")),
            ("a * * * *", Some("failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax")),
        ] {
            assert_eq!(complaint(schedule).as_deref(), expected, "{schedule}");
        }
    }
}
