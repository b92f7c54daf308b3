//! Generates names and UIDs. Random numbers are passed in.

use pintle_value::Str;

/// The letters of generated names: no vowels, so that they do not form words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many letters a generated name gets.
const SUFFIX_BYTES: usize = 5;
/// How many bytes of `generateName` are used.
pub const GENERATE_NAME_BYTES_MAX: usize = 63 - SUFFIX_BYTES;
/// How many letters one random number yields.
const LETTERS_PER_NUMBER: u32 = 12;
/// How many numbers beyond one per letter are drawn before the random source is considered broken.
const SPARE_NUMBERS: usize = 64;

/// `count` random letters, as in the suffix of generated names.
pub fn letters(count: usize, random: &mut dyn FnMut() -> u64) -> Str {
    let mut out = Str::default();
    for _ in 0..count.saturating_add(SPARE_NUMBERS) {
        let mut bits = random();
        for _ in 0..LETTERS_PER_NUMBER {
            if out.len() >= count {
                return out;
            }
            // Five bits have more values than there are letters; those draws are dropped, so that all letters are
            // equally likely.
            if let Some(letter) = LETTERS.get((bits & 31) as usize) {
                out.push(char::from(*letter));
            }
            bits >>= 5;
        }
    }
    out
}

/// Generates a name: the beginning of `generateName` and five random letters.
pub fn name(base: &str, random: &mut dyn FnMut() -> u64) -> Str {
    let mut end = base.len().min(GENERATE_NAME_BYTES_MAX);
    while !base.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    let mut out = Str::from(base.get(..end).unwrap_or(base));
    out.push_str(&letters(SUFFIX_BYTES, random));
    out
}

/// The length of a UID.
const UID_BYTES: usize = 36;
/// Where the two digits of each byte are in a UID; dashes are between them.
const UID_PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A UID (UUID version 4) of 16 random bytes.
pub fn uid(mut random: [u8; 16]) -> Str {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let digit = |half: u8| DIGITS.get(usize::from(half & 15)).copied().unwrap_or_default();
    let mut text = [b'-'; UID_BYTES];
    for (place, byte) in UID_PLACES.into_iter().zip(random) {
        if let Some(digits) = text.get_mut(place..).and_then(<[u8]>::first_chunk_mut) {
            *digits = [digit(byte >> 4), digit(byte)];
        }
    }
    Str::from(str::from_utf8(&text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_five_letters() {
        let mut seed = 0u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed ^ seed >> 33
        };
        let got = name("pod-", &mut random);
        assert_eq!(got.len(), 9);
        assert!(got.bytes().skip(4).all(|b| LETTERS.contains(&b)));
        assert_eq!(name(&"a".repeat(300), &mut random).len(), 63);
        assert!(name(&"é".repeat(300), &mut random).len() <= 63);
        assert_eq!(letters(2, &mut || 31 << 5 | 1), "cb");
    }

    #[test]
    fn uids_are_uuids() {
        assert_eq!(uid([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uid([255; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
