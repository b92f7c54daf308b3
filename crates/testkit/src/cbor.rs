//! CBOR (RFC 8949) to and from JSON, as far as API objects use it.
//!
//! Independent of the server's codec on purpose. Byte strings are read as text, tags are dropped.

use serde_json::{Map, Number, Value};

/// The tag for self-described CBOR.
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

const DEPTH_MAX: usize = 500;
const BREAK: u8 = 0xff;

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CborError {
    /// More bytes are needed.
    #[error("CBOR ends too early")]
    Incomplete,
    /// A value that JSON cannot express.
    #[error("CBOR with a value of initial byte {0:#04x}")]
    Unsupported(u8),
    /// Nested too deeply.
    #[error("CBOR nested deeper than {DEPTH_MAX}")]
    TooDeep,
}

/// Appends a value as CBOR.
pub fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(b) => out.push(if *b { 0xf5 } else { 0xf4 }),
        Value::Number(n) => encode_number(n, out),
        Value::String(s) => {
            encode_head(3, s.len() as u64, out);
            out.extend_from_slice(s.as_bytes());
        }
        Value::Array(items) => {
            encode_head(4, items.len() as u64, out);
            items.iter().for_each(|item| encode(item, out));
        }
        Value::Object(map) => {
            encode_head(5, map.len() as u64, out);
            for (key, item) in map {
                encode_head(3, key.len() as u64, out);
                out.extend_from_slice(key.as_bytes());
                encode(item, out);
            }
        }
    }
}

fn encode_number(number: &Number, out: &mut Vec<u8>) {
    if let Some(n) = number.as_u64() {
        encode_head(0, n, out);
    } else if let Some(n) = number.as_i64() {
        encode_head(1, !n.cast_unsigned(), out);
    } else {
        out.push(0xfb);
        out.extend_from_slice(&number.as_f64().unwrap_or_default().to_be_bytes());
    }
}

fn encode_head(major: u8, n: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    if n < 24 {
        out.push(major | n as u8);
    } else if let Ok(n) = u8::try_from(n) {
        out.extend_from_slice(&[major | 24, n]);
    } else if let Ok(n) = u16::try_from(n) {
        out.push(major | 25);
        out.extend_from_slice(&n.to_be_bytes());
    } else if let Ok(n) = u32::try_from(n) {
        out.push(major | 26);
        out.extend_from_slice(&n.to_be_bytes());
    } else {
        out.push(major | 27);
        out.extend_from_slice(&n.to_be_bytes());
    }
}

/// Decodes one value; returns it and the number of bytes it took.
pub fn decode(bytes: &[u8]) -> Result<(Value, usize), CborError> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.decode_value(0)?;
    Ok((value, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, n: usize) -> Result<&[u8], CborError> {
        let end = self.at.checked_add(n).ok_or(CborError::Incomplete)?;
        let slice = self.bytes.get(self.at..end).ok_or(CborError::Incomplete)?;
        self.at = end;
        Ok(slice)
    }

    fn byte(&mut self) -> Result<u8, CborError> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    fn uint(&mut self, width: usize) -> Result<u64, CborError> {
        Ok(self.take(width)?.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    fn at_break(&mut self) -> Result<bool, CborError> {
        let next = *self.bytes.get(self.at).ok_or(CborError::Incomplete)?;
        if next == BREAK {
            self.at += 1;
        }
        Ok(next == BREAK)
    }

    fn decode_value(&mut self, depth: usize) -> Result<Value, CborError> {
        if depth > DEPTH_MAX {
            return Err(CborError::TooDeep);
        }
        let first = self.byte()?;
        let (major, low) = (first >> 5, first & 31);
        if major == 7 {
            return self.decode_simple(first, low);
        }
        // `None` is an indefinite length.
        let n = match low {
            0..24 => Some(u64::from(low)),
            24..=27 => Some(self.uint(1 << (low - 24))?),
            31 if (2..=5).contains(&major) => None,
            _ => return Err(CborError::Unsupported(first)),
        };
        match major {
            0 => Ok(n.into()),
            1 => Ok(negative_int(n.unwrap_or_default())),
            2 | 3 => Ok(Value::String(self.decode_text(n, depth)?)),
            4 => self.decode_array(n, depth),
            5 => self.decode_map(n, depth),
            _ => self.decode_value(depth + 1),
        }
    }

    fn decode_simple(&mut self, first: u8, low: u8) -> Result<Value, CborError> {
        let float = match low {
            20 => return Ok(Value::Bool(false)),
            21 => return Ok(Value::Bool(true)),
            22 => return Ok(Value::Null),
            25 => half_to_f64(self.uint(2)? as u16),
            26 => f64::from(f32::from_bits(self.uint(4)? as u32)),
            27 => f64::from_bits(self.uint(8)?),
            _ => return Err(CborError::Unsupported(first)),
        };
        Number::from_f64(float).map(Value::Number).ok_or(CborError::Unsupported(first))
    }

    fn decode_text(&mut self, n: Option<u64>, depth: usize) -> Result<String, CborError> {
        match n {
            Some(n) => {
                let n = usize::try_from(n).map_err(|_| CborError::Incomplete)?;
                Ok(String::from_utf8_lossy(self.take(n)?).into_owned())
            }
            None => {
                let mut out = String::new();
                while !self.at_break()? {
                    if let Value::String(part) = self.decode_value(depth + 1)? {
                        out.push_str(&part);
                    }
                }
                Ok(out)
            }
        }
    }

    fn decode_array(&mut self, n: Option<u64>, depth: usize) -> Result<Value, CborError> {
        let mut out = Vec::new();
        while self.has_more(n, out.len())? {
            out.push(self.decode_value(depth + 1)?);
        }
        Ok(Value::Array(out))
    }

    fn decode_map(&mut self, n: Option<u64>, depth: usize) -> Result<Value, CborError> {
        let (mut out, mut read) = (Map::new(), 0);
        while self.has_more(n, read)? {
            let key = match self.decode_value(depth + 1)? {
                Value::String(key) => key,
                other => other.to_string(),
            };
            out.insert(key, self.decode_value(depth + 1)?);
            read += 1;
        }
        Ok(Value::Object(out))
    }

    fn has_more(&mut self, n: Option<u64>, read: usize) -> Result<bool, CborError> {
        match n {
            Some(n) => Ok((read as u64) < n),
            None => Ok(!self.at_break()?),
        }
    }
}

fn negative_int(n: u64) -> Value {
    match i64::try_from(n) {
        Ok(n) => Value::from(-1 - n),
        Err(_) => Value::from(-1.0 - n as f64),
    }
}

fn half_to_f64(half: u16) -> f64 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(half >> 10 & 31), f64::from(half & 0x3ff));
    match exponent {
        0 => sign * mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn round_trips() {
        let values = [
            json!(null),
            json!([true, false, 0, 23, 24, 255, 256, 65535, 65536, 4294967296u64, u64::MAX]),
            json!([-1, -24, -25, -256, i64::MIN, 1.5, -0.25]),
            json!({"b": "é", "a": {"x": [], "y": {}}}),
            json!("x".repeat(300)),
        ];
        for value in values {
            let mut bytes = Vec::new();
            encode(&value, &mut bytes);
            assert_eq!(decode(&bytes), Ok((value, bytes.len())));
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), Err(CborError::Incomplete));
            }
        }
    }

    #[test]
    fn other_forms() {
        let cases: [(&[u8], Value); 5] = [
            (b"\xd9\xd9\xf7\xa1\x41a\x01", json!({"a": 1})),
            (b"\x9f\x01\x02\xff", json!([1, 2])),
            (b"\xbf\x61a\xf6\xff", json!({"a": null})),
            (b"\x7f\x61a\x61b\xff", json!("ab")),
            (b"\xf9\x3e\x00", json!(1.5)),
        ];
        for (bytes, value) in cases {
            assert_eq!(decode(bytes).unwrap().0, value);
        }
        assert_eq!(decode(b"\xf7"), Err(CborError::Unsupported(0xf7)));
        assert_eq!(decode(&[0x81; 1000]), Err(CborError::TooDeep));
    }
}
