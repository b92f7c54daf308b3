//! The Huffman code of HPACK (RFC 7541, appendix B). The code is canonical, so the lengths of its codes determine it.

use crate::Malformed;
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
    /// For each byte with which a code of at most eight bits begins, the symbol and the length of its code. The length of others is 0.
    short: [(u8, u8); 256],
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table {
        codes: [Codes::default(); BITS_MAX + 1],
        symbols: Vec::with_capacity(LENGTHS.len()),
        short: [(0, 0); 256],
    };
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
    for (byte, short) in (0u32..).zip(&mut table.short) {
        let found = (1..=8).find_map(|length| {
            let symbol = table.codes.get(length)?.symbol(byte >> 8usize.saturating_sub(length))?;
            Some((table.symbols.get(symbol).copied()? as u8, length as u8))
        });
        *short = found.unwrap_or_default();
    }
    table
});

impl Codes {
    /// The index of the symbol with this code.
    fn symbol(self, code: u32) -> Option<usize> {
        let at = code.checked_sub(self.first).filter(|at| *at < self.count)?;
        usize::try_from(self.offset.saturating_add(at)).ok()
    }
}

/// The bits of a string that are not decoded yet.
struct Bits<'a> {
    rest: std::slice::Iter<'a, u8>,
    /// The next bits, from the highest on, and how many there are.
    next: u64,
    count: u32,
}

impl Bits<'_> {
    /// Fills `next` up to at least 32 bits, if there are so many.
    fn fill(&mut self) {
        while self.count <= 56
            && let Some(byte) = self.rest.next()
        {
            self.next |= u64::from(*byte) << 56u32.saturating_sub(self.count);
            self.count = self.count.saturating_add(8);
        }
    }

    fn skip_bits(&mut self, count: u32) -> Option<()> {
        self.count = self.count.checked_sub(count)?;
        self.next <<= count;
        Some(())
    }
}

/// Decodes a string.
pub(crate) fn decode(coded: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::with_capacity(coded.len().saturating_mul(2));
    let mut bits = Bits { rest: coded.iter(), next: 0, count: 0 };
    loop {
        bits.fill();
        // The last byte is filled up with the first bits of END, which are ones.
        let padding = u64::MAX.checked_shl(64u32.saturating_sub(bits.count)).unwrap_or(0);
        if bits.count < 8 && bits.next == padding {
            return Ok(out);
        }
        let (symbol, length) = match TABLE.short.get((bits.next >> 56) as usize) {
            Some((symbol, length @ 1..)) => (*symbol, u32::from(*length)),
            _ => long_code(bits.next).ok_or(Malformed)?,
        };
        bits.skip_bits(length).ok_or(Malformed)?;
        out.push(symbol);
    }
}

/// The symbol of the code at the start of these bits, which is longer than eight, and its length.
#[cold]
fn long_code(bits: u64) -> Option<(u8, u32)> {
    (9..=BITS_MAX).find_map(|length| {
        let code = (bits >> 64usize.saturating_sub(length)) as u32;
        let symbol = TABLE.symbols.get(TABLE.codes.get(length)?.symbol(code)?)?;
        Some((u8::try_from(*symbol).ok()?, length as u32))
    })
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

    /// Every byte is decoded, at every position within a byte.
    #[test]
    fn all_codes_are_decoded() {
        for symbol in 0..=255u8 {
            for before in 0..8usize {
                // `a` has five bits, so these positions are all different.
                let text: Vec<u8> = std::iter::repeat_n(b'a', before).chain([symbol, b'0', symbol]).collect();
                assert_eq!(decode(&encode(&text)).unwrap(), text, "{symbol} after {before}");
            }
        }
    }

    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for symbol in text {
            let length = usize::from(LENGTHS[usize::from(*symbol)]);
            let codes = TABLE.codes[length];
            let at = TABLE.symbols.iter().position(|other| *other == u16::from(*symbol)).unwrap() as u32;
            bits += &format!("{:0length$b}", codes.first + at - codes.offset);
        }
        bits += &"1".repeat((8 - bits.len() % 8) % 8);
        bits.as_bytes()
            .chunks(8)
            .map(|b| u8::from_str_radix(std::str::from_utf8(b).unwrap(), 2).unwrap())
            .collect()
    }

    #[test]
    fn damaged_strings_are_refused() {
        // Zeros as padding, a whole byte of padding, END itself.
        for coded in [&[0x18][..], &[0x64, 0x02, 0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert!(decode(coded).is_err(), "{coded:x?}");
        }
    }
}
