//! Bytes as hexadecimal text.

const DIGITS: [u8; 16] = *b"0123456789abcdef";

/// Two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).map_or('0', |&digit| char::from(digit));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_has_two_digits() {
        for (bytes, text) in [(&b""[..], ""), (b"\x00\x0f\xf0\xff", "000ff0ff"), (b"az", "617a")] {
            assert_eq!(super::encode(bytes), text);
        }
    }
}
