//! Shuffle sharding: the few queues of many that a flow may use, so that a flood in some leaves others to everybody else.

/// Most queues in a hand; kube-apiserver's limit.
pub const HAND_MAX: usize = 15;

/// The queues that a flow with this hash may use: `hand_size` different ones of `queues`.
pub fn hand(hash: u64, queues: usize, hand_size: usize) -> Vec<usize> {
    let size = hand_size.min(queues).min(HAND_MAX);
    let mut rest = hash;
    let mut remainders = Vec::with_capacity(size);
    for dealt in 0..size {
        let left = u64::try_from(queues - dealt).unwrap_or(1);
        remainders.push(usize::try_from(rest % left).unwrap_or(0));
        rest /= left;
    }
    // Each remainder counts the queues that are still in the deck; those dealt before it are skipped.
    let mut cards = Vec::with_capacity(size);
    for (dealt, remainder) in remainders.iter().enumerate() {
        let earlier = remainders.iter().take(dealt).rev();
        cards.push(earlier.fold(*remainder, |card, before| card + usize::from(card >= *before)));
    }
    cards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_has_different_queues() {
        for hash in [0, 1, 12_345, u64::MAX, u64::MAX / 3] {
            let mut cards = hand(hash, 64, 8);
            assert!(cards.iter().all(|card| *card < 64));
            cards.sort_unstable();
            cards.dedup();
            assert_eq!(cards.len(), 8, "{hash}");
        }
        assert_eq!(hand(7, 1, 8), [0]);
    }

    #[test]
    fn all_hands_of_a_small_deck_are_dealt() {
        let mut hands: Vec<Vec<usize>> = (0..12).map(|hash| hand(hash, 4, 2)).collect();
        hands.sort();
        hands.dedup();
        assert_eq!(hands.len(), 12);
    }
}
