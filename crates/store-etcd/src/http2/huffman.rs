//! The Huffman code of HPACK (RFC 7541, appendix B). The code is canonical, so the lengths of its codes determine it.

use super::header::BadHeaders;
use std::sync::LazyLock;

/// The longest code.
const BITS_MAX: usize = 30;
/// The symbol that ends a string; it only occurs as padding.
const END: u16 = 256;

/// The length of the code of each byte, and of [`END`].
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The codes of one length are consecutive numbers, and their symbols are in order.
#[derive(Clone, Copy, Default)]
struct Codes {
    first: u32,
    count: u32,
    /// The index of the first symbol of this length.
    offset: u32,
}

struct Table {
    /// The codes by length.
    codes: [Codes; BITS_MAX + 1],
    symbols: Vec<u16>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table =
        Table { codes: [Codes::default(); BITS_MAX + 1], symbols: Vec::with_capacity(LENGTHS.len()) };
    let mut next = 0u32;
    for (length, codes) in table.codes.iter_mut().enumerate().skip(1) {
        next <<= 1;
        let offset = table.symbols.len() as u32;
        let same_length = (0..=END).zip(LENGTHS).filter(|(_, bits)| usize::from(*bits) == length);
        table.symbols.extend(same_length.map(|(symbol, _)| symbol));
        let count = (table.symbols.len() as u32).wrapping_sub(offset);
        *codes = Codes { first: next, count, offset };
        next = next.wrapping_add(count);
    }
    table
});

/// Decodes a string.
pub(super) fn decode(coded: &[u8]) -> Result<Vec<u8>, BadHeaders> {
    let mut out = Vec::with_capacity(coded.len().saturating_mul(2));
    let (mut code, mut length) = (0u32, 0usize);
    for byte in coded {
        for bit in (0..8).rev() {
            code = (code << 1) | u32::from((byte >> bit) & 1);
            length = length.saturating_add(1);
            let codes = TABLE.codes.get(length).ok_or(BadHeaders)?;
            let Some(at) = code.checked_sub(codes.first).filter(|at| *at < codes.count) else { continue };
            let symbol = TABLE.symbols.get(codes.offset.saturating_add(at) as usize).ok_or(BadHeaders)?;
            out.push(u8::try_from(*symbol).map_err(|_| BadHeaders)?);
            (code, length) = (0, 0);
        }
    }
    // The last byte is filled up with the first bits of END, which are ones.
    let padding = (1u32 << length.min(8)).wrapping_sub(1);
    if length < 8 && code == padding { Ok(out) } else { Err(BadHeaders) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of RFC 7541, appendix C.4 and C.6.
    #[test]
    fn strings_are_decoded() {
        let examples: [(&[u8], &str); 5] = [
            (&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff], "www.example.com"),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
            (&[], ""),
        ];
        for (coded, text) in examples {
            assert_eq!(decode(coded).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn damaged_strings_are_refused() {
        // Zeros as padding, a whole byte of padding, END itself.
        for coded in [&[0x18][..], &[0x64, 0x02, 0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert!(decode(coded).is_err(), "{coded:x?}");
        }
    }
}
