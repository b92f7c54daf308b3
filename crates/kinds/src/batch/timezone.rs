//! Names of time zones.

/// All names of the time zone database, one a line, sorted.
const NAMES: &str = include_str!("../../data/timezones.txt");
/// The longest allowed part of a name.
const PART_BYTES_MAX: usize = 14;

/// Returns whether a time zone exists. `UTC` and `Local` always do.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "UTC" | "Local") || NAMES.lines().any(|line| line == name)
}

/// Validates the time zone of a CronJob.
pub(super) fn complaints(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_string()];
    }
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(is_part) {
        return vec![unknown];
    }
    let mut found = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        found.push(text.to_string());
    }
    if !is_known(name) {
        found.push(unknown);
    }
    found
}

fn is_part(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    (1..=PART_BYTES_MAX).contains(&part.len())
        && part != "."
        && part != ".."
        && !part.starts_with('-')
        && part.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::{complaints, is_known};

    #[test]
    fn known_and_unknown_zones() {
        for zone in ["UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"] {
            assert!(is_known(zone) && complaints(zone).is_empty(), "{zone}");
        }
        for (zone, expected) in
            [("Mars/Olympus", 1), ("Local", 1), ("local", 2), ("", 1), ("../etc/passwd", 1)]
        {
            assert_eq!(complaints(zone).len(), expected, "{zone}");
        }
    }
}
