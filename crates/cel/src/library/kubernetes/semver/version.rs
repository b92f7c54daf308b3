//! Parses and orders versions as `github.com/blang/semver` does, with its messages.

use std::cmp::Ordering;

use pintle_value::quote::go_quoted;

/// A semantic version: three numbers and a pre-release. Build metadata is ignored. Versions are ordered by precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    pre: Vec<Pre>,
}

/// `1.2.3-alpha.1`; build metadata is not retained.
impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (part, separator) in self.pre.iter().zip(std::iter::once('-').chain(std::iter::repeat('.'))) {
            match part {
                Pre::Number(number) => write!(f, "{separator}{number}")?,
                Pre::Word(word) => write!(f, "{separator}{word}")?,
            }
        }
        Ok(())
    }
}

/// A part of a pre-release: numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    Number(u64),
    Word(String),
}

impl Version {
    /// Parses `major.minor.patch[-pre][+build]`.
    pub fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err("Version string empty".into());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".into());
        };
        let major = parse_number(major, "major", "Major")?;
        let minor = parse_number(minor, "minor", "Minor")?;
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = parse_number(patch, "patch", "Patch")?;
        let pre: Result<Vec<Pre>, String> =
            pre.into_iter().flat_map(|pre| pre.split('.')).map(pre_release).collect();
        let pre = pre?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".into());
            }
            if !is_word(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", go_quoted(part)));
            }
        }
        Ok(Version { major, minor, patch, pre })
    }

    /// Parses an almost valid version: a leading `v`, leading zeros and missing numbers are accepted.
    pub(super) fn parse_normalized(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".into());
            }
            parts.resize(3, "0".into());
        }
        Version::parse(&parts.join("."))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch)).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                // A release comes after its pre-releases.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => self.pre.cmp(&other.pre),
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let stripped = part.trim_start_matches('0');
    let zero = if stripped.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    format!("{zero}{stripped}")
}

fn parse_number(text: &str, name: &str, title: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", go_quoted(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", go_quoted(text)));
    }
    unsigned(text)
}

/// Go's `strconv.ParseUint` of digits.
fn unsigned(digits: &str) -> Result<u64, String> {
    let what = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
    digits.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {what}", go_quoted(digits)))
}

fn pre_release(text: &str) -> Result<Pre, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".into());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let text = go_quoted(text);
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text}"));
        }
        return unsigned(text).map(Pre::Number);
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", go_quoted(text)));
    }
    Ok(Pre::Word(text.to_owned()))
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
