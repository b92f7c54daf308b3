//! The heads of data items, and the check that bytes are well-formed.

use super::{ARRAY_ITEMS_MAX, DEPTH_MAX, DecodeError, MAP_PAIRS_MAX};

/// The major types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Major {
    PositiveInt,
    NegativeInt,
    Bytes,
    Text,
    Array,
    Map,
    Tag,
    Primitive,
}

impl Major {
    fn of(byte: u8) -> Major {
        match byte >> 5 {
            0 => Major::PositiveInt,
            1 => Major::NegativeInt,
            2 => Major::Bytes,
            3 => Major::Text,
            4 => Major::Array,
            5 => Major::Map,
            6 => Major::Tag,
            _ => Major::Primitive,
        }
    }

    /// The name that errors use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Major::PositiveInt => "positive integer",
            Major::NegativeInt => "negative integer",
            Major::Bytes => "byte string",
            Major::Text => "UTF-8 text string",
            Major::Array => "array",
            Major::Map => "map",
            Major::Tag => "tag",
            Major::Primitive => "primitives",
        }
    }
}

/// The byte that ends an item of indefinite length.
pub(super) const BREAK: u8 = 0xff;

/// The low bits that mean "of indefinite length".
const INDEFINITE: u8 = 31;

/// The first byte of an item and its argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) major: Major,
    /// The low five bits of the first byte.
    pub(super) info: u8,
    pub(super) argument: u64,
}

impl Head {
    /// The length, unless that is indefinite.
    pub(super) fn length(&self) -> Option<u64> {
        (self.info != INDEFINITE).then_some(self.argument)
    }
}

/// The bytes with a reading position.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

pub(super) fn unexpected_eof() -> DecodeError {
    DecodeError::malformed("unexpected EOF")
}

impl<'a> Reader<'a> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn peek_major(&self) -> Option<Major> {
        self.peek().map(Major::of)
    }

    /// Takes a break, if one is next.
    pub(super) fn take_break(&mut self) -> bool {
        let found = self.peek() == Some(BREAK);
        self.at = self.at.saturating_add(usize::from(found));
        found
    }

    /// Takes `length` bytes.
    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| unexpected_eof())?;
        let taken =
            self.bytes.get(self.at..).and_then(|rest| rest.get(..length)).ok_or_else(unexpected_eof)?;
        self.at = self.at.saturating_add(length);
        Ok(taken)
    }

    /// Takes the head of an item.
    pub(super) fn head(&mut self) -> Result<Head, DecodeError> {
        let first = self.peek().ok_or_else(unexpected_eof)?;
        self.at = self.at.saturating_add(1);
        let (major, info) = (Major::of(first), first & 0x1f);
        let argument = match info {
            0..24 => u64::from(info),
            24..28 => self
                .take(1 << info.saturating_sub(24))?
                .iter()
                .fold(0, |number, &byte| number << 8 | u64::from(byte)),
            INDEFINITE if major == Major::Primitive => {
                return Err(DecodeError::malformed("cbor: unexpected \"break\" code"));
            }
            INDEFINITE if matches!(major, Major::Bytes | Major::Text | Major::Array | Major::Map) => 0,
            _ => {
                let name = major.name();
                let message = format!("cbor: invalid additional information {info} for type {name}");
                return Err(DecodeError::malformed(message));
            }
        };
        let head = Head { major, info, argument };
        check_primitive(head)?;
        Ok(head)
    }

    /// Takes a whole item, however deep, and checks that it is well-formed. Returns the number of items in it, itself and
    /// keys included.
    pub(super) fn item(&mut self) -> Result<usize, DecodeError> {
        let mut open: Vec<Open> = Vec::new();
        let mut count = 0_usize;
        loop {
            count = count.saturating_add(1);
            let depth = open.last().map_or(0, |container| container.depth);
            if let Some(container) = self.open_item(depth)? {
                open.push(container);
            }
            while let Some(container) = open.last_mut() {
                if !container.is_at_end(self)? {
                    break;
                }
                open.pop();
            }
            if open.is_empty() {
                return Ok(count);
            }
        }
    }

    /// Takes an item, or the head of a container.
    fn open_item(&mut self, outer_depth: usize) -> Result<Option<Open>, DecodeError> {
        let mut depth = outer_depth;
        let mut head = self.head()?;
        let mut tags = 0_usize;
        while head.major == Major::Tag {
            if tags > 0 {
                depth = checked_depth(depth)?;
            }
            tags = tags.saturating_add(1);
            if matches!(head.argument, 2 | 3) && self.peek().is_some() {
                return Err(DecodeError::malformed(DecodeError::unacceptable("tag", "bignum")));
            }
            head = self.head()?;
        }
        match head.major {
            Major::Bytes | Major::Text => {
                self.string(head)?;
                Ok(None)
            }
            Major::Array | Major::Map => {
                let depth = checked_depth(depth)?;
                Ok(Some(Open::new(head, depth)?))
            }
            _ => Ok(None),
        }
    }

    /// Takes the content of a string.
    fn string(&mut self, head: Head) -> Result<(), DecodeError> {
        let name = head.major.name();
        let Some(length) = head.length() else {
            loop {
                if self.take_break() {
                    return Ok(());
                }
                let first = self.peek().ok_or_else(unexpected_eof)?;
                let found = Major::of(first);
                if found != head.major {
                    let message =
                        format!("cbor: wrong element type {} for indefinite-length {name}", found.name());
                    return Err(DecodeError::malformed(message));
                }
                if first & 0x1f == INDEFINITE {
                    let message = format!("cbor: indefinite-length {name} chunk is not definite-length");
                    return Err(DecodeError::malformed(message));
                }
                let chunk = self.head()?;
                self.string(chunk)?;
            }
        };
        if i64::try_from(length).is_err() {
            let message = format!("cbor: {name} length {length} is too large, causing integer overflow");
            return Err(DecodeError::malformed(message));
        }
        self.take(length)?;
        Ok(())
    }
}

fn checked_depth(depth: usize) -> Result<usize, DecodeError> {
    if depth >= DEPTH_MAX {
        return Err(DecodeError::malformed(format!("cbor: exceeded max nested level {DEPTH_MAX}")));
    }
    Ok(depth.saturating_add(1))
}

/// Checks that a simple value has its shortest form and that a float is a number.
fn check_primitive(head: Head) -> Result<(), DecodeError> {
    if head.major != Major::Primitive {
        return Ok(());
    }
    if head.info == 24 && head.argument < 32 {
        let message = format!("cbor: invalid simple value {} for type primitives", head.argument);
        return Err(DecodeError::malformed(message));
    }
    let problem = match float(head) {
        Some(float) if float.is_nan() => "floating-point NaN",
        Some(float) if float.is_infinite() => "floating-point infinity",
        _ => return Ok(()),
    };
    Err(DecodeError::malformed(DecodeError::unacceptable("primitives", problem)))
}

/// The value of this primitive if it is a float.
pub(super) fn float(head: Head) -> Option<f64> {
    match head.info {
        25 => Some(half_to_double(head.argument as u16)),
        26 => Some(f64::from(f32::from_bits(head.argument as u32))),
        27 => Some(f64::from_bits(head.argument)),
        _ => None,
    }
}

fn half_to_double(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff);
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent.saturating_sub(15)),
    };
    sign * magnitude
}

/// An array or a map whose items have not all been read.
struct Open {
    depth: usize,
    map: bool,
    /// The number of items that follow; `None` if a break ends them.
    left: Option<u64>,
    seen: u64,
}

impl Open {
    fn new(head: Head, depth: usize) -> Result<Open, DecodeError> {
        let map = head.major == Major::Map;
        let left = match head.length() {
            None => None,
            Some(length) if i64::try_from(length).is_err() => {
                let name = head.major.name();
                let message =
                    format!("cbor: {name} length {length} is too large, it would cause integer overflow");
                return Err(DecodeError::malformed(message));
            }
            Some(length) => {
                check_size(map, length)?;
                Some(if map { length.saturating_mul(2) } else { length })
            }
        };
        Ok(Open { depth, map, left, seen: 0 })
    }

    /// Returns true if no item follows; otherwise counts the next one.
    fn is_at_end(&mut self, reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
        if let Some(left) = &mut self.left {
            let ends = *left == 0;
            *left = left.saturating_sub(1);
            return Ok(ends);
        }
        check_size(self.map, if self.map { self.seen / 2 } else { self.seen })?;
        if reader.peek().is_none() {
            return Err(unexpected_eof());
        }
        if !reader.take_break() {
            self.seen = self.seen.saturating_add(1);
            return Ok(false);
        }
        if self.map && self.seen % 2 == 1 {
            return Err(DecodeError::malformed("cbor: unexpected \"break\" code"));
        }
        Ok(true)
    }
}

fn check_size(map: bool, size: u64) -> Result<(), DecodeError> {
    if map && size > MAP_PAIRS_MAX {
        let message = format!("cbor: exceeded max number of key-value pairs {MAP_PAIRS_MAX} for CBOR map");
        return Err(DecodeError::malformed(message));
    }
    if !map && size > ARRAY_ITEMS_MAX {
        let message = format!("cbor: exceeded max number of elements {ARRAY_ITEMS_MAX} for CBOR array");
        return Err(DecodeError::malformed(message));
    }
    Ok(())
}

/// Checks that the bytes are one well-formed item, and returns the number of items in it, keys included.
pub(super) fn check_well_formed(bytes: &[u8]) -> Result<usize, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::malformed("EOF"));
    }
    let mut reader = Reader { bytes, at: 0 };
    let count = reader.item()?;
    let rest = bytes.len().saturating_sub(reader.at);
    if rest > 0 {
        let message = format!("cbor: {rest} bytes of extraneous data starting at index {}", reader.at);
        return Err(DecodeError::malformed(message));
    }
    Ok(count)
}
