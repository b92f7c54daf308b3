//! Base64 with padding, as Go's `base64.StdEncoding` reads and writes it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The input is not valid base64. The message is Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub struct CorruptInput(pub usize);

/// Encodes with the standard alphabet and padding.
pub fn encode(bytes: &[u8]) -> String {
    encode_with(ALPHABET, true, bytes)
}

/// Encodes with the alphabet for URLs and without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    encode_with(URL_ALPHABET, false, bytes)
}

fn encode_with(alphabet: &[u8; 64], padded: bool, bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (index, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            if index <= group.len() {
                let digit = alphabet.get((bits >> shift & 0x3f) as usize);
                out.push(digit.copied().map_or('=', char::from));
            } else if padded {
                out.push('=');
            }
        }
    }
    out
}

#[expect(clippy::arithmetic_side_effects, reason = "each arm bounds the byte")]
fn sextet(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Decodes the standard alphabet with padding; line ends are skipped.
pub fn decode(text: &str) -> Result<Vec<u8>, CorruptInput> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity((bytes.len() / 4).saturating_mul(3));
    let mut at = 0_usize;
    let mut bits: u32 = 0;
    // Sextets of the current group of four.
    let mut count = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        at = at.saturating_add(1);
        if let Some(value) = sextet(byte) {
            bits = bits << 6 | value;
            count = count.saturating_add(1);
            if count == 4 {
                let [_, a, b, c] = bits.to_be_bytes();
                out.extend_from_slice(&[a, b, c]);
                (bits, count) = (0, 0);
            }
            continue;
        }
        match byte {
            b'\r' | b'\n' => {}
            b'=' if count >= 2 => {
                end_padding(bytes, at, count)?;
                let missing = if count == 3 { 6 } else { 12 };
                let [_, a, b, _] = (bits << missing).to_be_bytes();
                out.push(a);
                out.extend((count == 3).then_some(b));
                return Ok(out);
            }
            _ => return Err(CorruptInput(at.saturating_sub(1))),
        }
    }
    if count > 0 { Err(CorruptInput(at.saturating_sub(count))) } else { Ok(out) }
}

/// Checks what follows the first `=` of a group that has `count` sextets: one more `=` if two are missing, and
/// then nothing.
fn end_padding(bytes: &[u8], mut at: usize, count: usize) -> Result<(), CorruptInput> {
    at = skip_line_ends(bytes, at);
    if count == 2 {
        match bytes.get(at) {
            None => return Err(CorruptInput(bytes.len())),
            Some(b'=') => at = skip_line_ends(bytes, at.saturating_add(1)),
            Some(_) => return Err(CorruptInput(at.saturating_sub(1))),
        }
    }
    if at < bytes.len() { Err(CorruptInput(at)) } else { Ok(()) }
}

fn skip_line_ends(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b'\r' | b'\n') = bytes.get(at) {
        at = at.saturating_add(1);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_round_trip() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{fb}\u{fff}", "w7vgv78="),
        ] {
            assert_eq!(encode(plain.as_bytes()), encoded);
            assert_eq!(decode(encoded), Ok(plain.as_bytes().to_vec()));
        }
        assert_eq!(encode_url(&[0xfb, 0xff]), "-_8");
        assert_eq!(decode("Zm\n9v\r\nYg=\n=\n"), Ok(b"foob".to_vec()));
    }

    #[test]
    fn errors_name_the_byte_as_go_does() {
        for (input, at) in [
            ("!", 0),
            ("Zg", 0),
            ("Zg=", 3),
            ("Zg==Z", 4),
            ("Zg=x", 2),
            ("Z===", 1),
            ("Zm9vZ", 4),
            ("Zm9v Zg==", 4),
        ] {
            assert_eq!(decode(input), Err(CorruptInput(at)), "{input}");
        }
    }
}
