//! The texts of ASN.1, of which the subjects of certificates consist, as Go decodes them.
//!
//! One name can be written in several string types. Code that compares names must decode all of them: a certificate whose group is
//! `system:masters` in UTF-16 gives the same rights as any other.

/// Bytes that are no text of the type that they claim to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid ASN.1 string")]
pub struct InvalidText;

/// Decodes a value by the number of its type; `None` if the type is not a string type.
pub fn text(tag: u32, bytes: &[u8]) -> Result<Option<String>, InvalidText> {
    let ascii = |allows: fn(u8) -> bool| {
        let text = std::str::from_utf8(bytes).ok().filter(|_| bytes.iter().all(|byte| allows(*byte)));
        text.map(str::to_string).ok_or(InvalidText)
    };
    let text = match tag {
        // UTF8String
        12 => ascii(|_| true)?,
        // NumericString
        18 => ascii(|byte| byte.is_ascii_digit() || byte == b' ')?,
        // PrintableString. Go also accepts `*` and `&`, which many certificates have.
        19 => ascii(|byte| byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(&byte))?,
        // T61String: Go takes it for ISO 8859-1.
        20 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        // IA5String
        22 => ascii(|byte| byte.is_ascii())?,
        // BMPString
        30 => decode_utf16(bytes)?,
        _ => return Ok(None),
    };
    Ok(Some(text))
}

fn decode_utf16(bytes: &[u8]) -> Result<String, InvalidText> {
    let (units, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(InvalidText);
    }
    // Go removes one terminating zero.
    let units = units.strip_suffix(&[[0, 0]]).unwrap_or(units);
    let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
    Ok(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_string_type_is_decoded() {
        let ok = |text: &str| Ok(Some(text.to_string()));
        for (tag, bytes, want) in [
            (12, &b"a\xc3\xa9"[..], ok("aé")),
            (12, b"\xff", Err(InvalidText)),
            (18, b"12 3", ok("12 3")),
            (18, b"1a", Err(InvalidText)),
            (19, b"system:masters", ok("system:masters")),
            (19, b"*.a&b", ok("*.a&b")),
            (19, b"a@b", Err(InvalidText)),
            (20, b"a\xe9", ok("aé")),
            (22, b"a@b", ok("a@b")),
            (22, b"\x80", Err(InvalidText)),
            (30, b"\0a\x20\xac", ok("a€")),
            (30, b"\0a\0\0", ok("a")),
            (30, b"\0a\0", Err(InvalidText)),
            (4, b"a", Ok(None)),
        ] {
            assert_eq!(text(tag, bytes), want, "{tag} {bytes:?}");
        }
    }
}
