//! SHA-256 of short texts, for storage version hashes; not for secrets.

const ROUNDS: usize = 64;

/// The digest of `data`.
pub(crate) fn digest(data: &[u8]) -> [u8; 32] {
    let (mut state, constants) = constants();
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        compress(&mut state, block, &constants);
    }
    let mut out = [0; 32];
    for (to, word) in out.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// Initial state and round constants: fractional parts of square and cube roots of the first primes.
fn constants() -> ([u32; 8], [u32; ROUNDS]) {
    let primes: Vec<u64> = (2..).filter(|n| (2..*n).all(|d| n % d != 0)).take(ROUNDS).collect();
    let mut state = [0; 8];
    let mut rounds = [0; ROUNDS];
    for (to, prime) in state.iter_mut().zip(&primes) {
        *to = fraction(*prime, 2);
    }
    for (to, prime) in rounds.iter_mut().zip(&primes) {
        *to = fraction(*prime, 3);
    }
    (state, rounds)
}

/// The first 32 bits of the fraction of the `power`th root of `n`, by bisection on integers.
fn fraction(n: u64, power: u32) -> u32 {
    let target = |x: u128| match power {
        2 => x * x <= u128::from(n) << 64,
        _ => x * x * x <= u128::from(n) << 96,
    };
    let (mut low, mut high) = (0u128, 1u128 << 38);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if target(middle) { low = middle } else { high = middle }
    }
    (low & 0xffff_ffff) as u32
}

#[expect(clippy::indexing_slicing, reason = "fixed sizes")]
fn compress(state: &mut [u32; 8], block: &[u8], constants: &[u32; ROUNDS]) {
    let mut w = [0u32; ROUNDS];
    for (to, from) in w.iter_mut().zip(block.chunks_exact(4)) {
        *to = from.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for i in 16..ROUNDS {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for i in 0..ROUNDS {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let t1 =
            h.wrapping_add(s1).wrapping_add((e & f) ^ (!e & g)).wrapping_add(constants[i]).wrapping_add(w[i]);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    for (to, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *to = to.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_abc_is_the_published_one() {
        let hex: String = digest(b"abc").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
