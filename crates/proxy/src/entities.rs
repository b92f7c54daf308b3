//! Entities of HTML in the values of attributes, decoded like in Go's `html` package.

use std::sync::LazyLock;

/// Names of entities with their code points, sorted. Old names also work without their semicolon.
static NAMES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    include_str!("../data/entities.txt").lines().filter_map(|line| line.split_once(' ')).collect()
});

/// Numeric entities from 0x80 on, which are characters of Windows-1252.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}',
    '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// Decodes the entities of a value. Unknown entities stay unchanged.
pub(crate) fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = from.get(1..).unwrap_or_default();
        let used = match after.strip_prefix('#') {
            Some(number) => decode_number(number, &mut out).map(|used| used.saturating_add(1)),
            None => decode_name(after, &mut out),
        };
        if used.is_none() {
            out.push('&');
        }
        rest = after.get(used.unwrap_or(0)..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Decodes the number after `&#`. Returns how many bytes it takes.
fn decode_number(text: &str, out: &mut String) -> Option<usize> {
    let (digits, radix, prefix) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16, 1),
        None => (text, 10, 0),
    };
    let size = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = digits.get(..size).filter(|digits| !digits.is_empty())?;
    let code = u32::from_str_radix(number, radix).unwrap_or(u32::MAX);
    let windows = code.checked_sub(0x80).and_then(|place| WINDOWS_1252.get(usize::try_from(place).ok()?));
    out.push(match windows {
        Some(c) => *c,
        None => char::from_u32(code).filter(|c| *c != '\0').unwrap_or('\u{fffd}'),
    });
    let semicolon = usize::from(digits.get(size..).is_some_and(|rest| rest.starts_with(';')));
    Some(size.saturating_add(prefix).saturating_add(semicolon))
}

/// Decodes the name that follows `&`. Returns how many bytes it takes.
fn decode_name(text: &str, out: &mut String) -> Option<usize> {
    let letters = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let rest = text.get(letters..).unwrap_or_default();
    let size = letters.saturating_add(usize::from(rest.starts_with(';')));
    // `&copy=` is a parameter of a query.
    if rest.starts_with('=') {
        return None;
    }
    let name = text.get(..size)?;
    let place = NAMES.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
    let (_, codes) = NAMES.get(place)?;
    let decode = |code: &str| char::from_u32(u32::from_str_radix(code, 16).ok()?);
    out.extend(codes.split(' ').filter_map(decode));
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn entities_are_decoded() {
        for (text, want) in [
            ("a &amp; b &lt;&gt;", "a & b <>"),
            ("&eacute;&NotEqualTilde;&copy", "é\u{2242}\u{338}©"),
            ("?a=1&copy=2&amp", "?a=1&copy=2&"),
            ("&none;&;&", "&none;&;&"),
            ("&#39;&#x41;&#x41&#128;&#0;&#x110000;", "'AA€\u{fffd}\u{fffd}"),
            ("&#;&#x;&#", "&#;&#x;&#"),
            ("&notit;", "&notit;"),
        ] {
            assert_eq!(decode(text), want, "{text}");
        }
    }
}
