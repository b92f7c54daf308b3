//! Percent-encoding, as URLs and headers use it.

/// The first malformed escape of a text, as far as it goes: `%`, `%4` or `%zz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedEscape(pub String);

/// Encodes the bytes that are not plain as `%XX`.
pub fn encode(bytes: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if is_plain(*byte) {
            out.push(char::from(*byte));
        } else {
            // Formatting would take ten times as long, and anyone can send a URL of a megabyte of such bytes.
            out.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 0xf)]);
        }
    }
    out
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0').to_ascii_uppercase()
}

/// Decodes the escapes `%XX`. Bytes that are not UTF-8 are replaced.
pub fn decode(text: &str) -> Result<String, MalformedEscape> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let Some(decoded) = decode_byte(after) else {
            let digits = String::from_utf8_lossy(after.get(..2).unwrap_or(after));
            return Err(MalformedEscape(format!("%{digits}")));
        };
        out.push(decoded);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The byte that two hexadecimal digits at the beginning of `digits` stand for.
pub fn decode_byte(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_malformed_ones_named() {
        for (text, expected) in [
            ("a%20b%2fc", Ok("a b/c")),
            ("%C3%A4", Ok("ä")),
            ("%ff", Ok("\u{fffd}")),
            ("a%", Err("%")),
            ("%4", Err("%4")),
            ("%zzz", Err("%zz")),
        ] {
            let expected = expected.map(str::to_string).map_err(|escape| MalformedEscape(escape.into()));
            assert_eq!(decode(text), expected, "{text}");
        }
        assert_eq!(encode("a b/ä".as_bytes(), |byte| byte.is_ascii_alphanumeric()), "a%20b%2F%C3%A4");
    }
}
