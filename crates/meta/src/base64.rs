//! Base64 as Go's `encoding/base64` reads and writes it: line breaks are skipped, errors name the byte.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Which of Go's encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `StdEncoding`, as the bytes of objects are written.
    Standard,
    /// `RawURLEncoding`, as continue tokens are written.
    RawUrl,
}

/// Why a text is no base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub struct Base64Error(pub usize);

impl Encoding {
    fn alphabet(self) -> &'static [u8; 64] {
        match self {
            Encoding::Standard => STANDARD,
            Encoding::RawUrl => URL,
        }
    }

    fn digit(self, byte: u8) -> Option<u8> {
        match (byte, self) {
            (b'A'..=b'Z', _) => Some(byte - b'A'),
            (b'a'..=b'z', _) => Some(byte - b'a' + 26),
            (b'0'..=b'9', _) => Some(byte - b'0' + 52),
            (b'+', Encoding::Standard) | (b'-', Encoding::RawUrl) => Some(62),
            (b'/', Encoding::Standard) | (b'_', Encoding::RawUrl) => Some(63),
            _ => None,
        }
    }

    /// Writes bytes as text.
    pub fn encode(self, bytes: &[u8]) -> String {
        let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for chunk in bytes.chunks(3) {
            let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for i in 0..4 {
                let digit = (bits >> (18 - 6 * i) & 63) as usize;
                match self.alphabet().get(digit) {
                    Some(letter) if i <= chunk.len() => out.push(char::from(*letter)),
                    _ if self == Encoding::Standard => out.push('='),
                    _ => {}
                }
            }
        }
        out
    }

    /// Reads text as bytes.
    pub fn decode(self, text: &str) -> Result<Vec<u8>, Base64Error> {
        let mut reader = Reader { encoding: self, bytes: text.as_bytes(), at: 0 };
        let mut out = Vec::with_capacity(text.len() / 4 * 3);
        loop {
            let (digits, count) = reader.quantum()?;
            let bits = digits.iter().fold(0u32, |bits, digit| bits << 6 | u32::from(*digit));
            let bytes = bits.to_be_bytes();
            out.extend(bytes.iter().skip(1).take(count.saturating_sub(1)));
            if count < digits.len() {
                return Ok(out);
            }
        }
    }
}

struct Reader<'a> {
    encoding: Encoding,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next four digits, and how many of them there were; fewer than four only at the end.
    fn quantum(&mut self) -> Result<([u8; 4], usize), Base64Error> {
        let mut digits = [0; 4];
        for count in 0..digits.len() {
            self.skip_breaks();
            let Some(byte) = self.bytes.get(self.at).copied() else {
                return match (count, self.encoding) {
                    (0, _) => Ok((digits, 0)),
                    (2.., Encoding::RawUrl) => Ok((digits, count)),
                    _ => Err(Base64Error(self.at - count)),
                };
            };
            self.at += 1;
            match (self.encoding.digit(byte), digits.get_mut(count)) {
                (Some(digit), Some(slot)) => *slot = digit,
                _ => return self.padding(byte, count).map(|()| (digits, count)),
            }
        }
        Ok((digits, digits.len()))
    }

    fn skip_breaks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Accepts the padding that may end the text after two or three digits.
    fn padding(&mut self, byte: u8, count: usize) -> Result<(), Base64Error> {
        if byte != b'=' || self.encoding == Encoding::RawUrl || count < 2 {
            return Err(Base64Error(self.at - 1));
        }
        if count == 2 {
            self.skip_breaks();
            match self.bytes.get(self.at) {
                None => return Err(Base64Error(self.bytes.len())),
                Some(b'=') => self.at += 1,
                Some(_) => return Err(Base64Error(self.at - 1)),
            }
        }
        self.skip_breaks();
        if self.at < self.bytes.len() { Err(Base64Error(self.at)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_there_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        for end in 0..bytes.len() {
            for encoding in [Encoding::Standard, Encoding::RawUrl] {
                assert_eq!(encoding.decode(&encoding.encode(&bytes[..end])).unwrap(), &bytes[..end]);
            }
        }
        assert_eq!(Encoding::Standard.encode(b"a"), "YQ==");
        assert_eq!(Encoding::RawUrl.encode(b"a\xff"), "Yf8");
        assert_eq!(Encoding::Standard.decode("YQ\r\n==\n"), Ok(b"a".to_vec()));
    }

    #[test]
    fn errors_name_the_byte() {
        for (text, at) in [
            ("***", 0),
            ("YWI", 0),
            ("YQ=", 3),
            ("YQ=x", 2),
            ("YQ==YQ==", 4),
            ("YWJj!", 4),
            ("=", 0),
            ("YWJjY", 4),
        ] {
            assert_eq!(Encoding::Standard.decode(text), Err(Base64Error(at)), "{text}");
        }
        assert_eq!(Encoding::RawUrl.decode("YQ=="), Err(Base64Error(2)));
        assert_eq!(Encoding::RawUrl.decode("Y"), Err(Base64Error(0)));
    }
}
