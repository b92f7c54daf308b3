//! Shuffle sharding: selects the few queues that a flow may use, so that a flood in some queues leaves the other ones
//! free.

/// The maximum number of queues in a hand; kube-apiserver's limit.
pub const HAND_MAX: usize = 15;

/// The queues of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hand {
    cards: [usize; HAND_MAX],
    size: usize,
}

impl Hand {
    /// The queues that a flow with this hash may use: `hand_size` different ones of `queues`.
    pub fn deal(hash: u64, queues: usize, hand_size: usize) -> Self {
        let size = hand_size.min(queues).min(HAND_MAX);
        let mut remainders = [0usize; HAND_MAX];
        let mut rest = hash;
        for (dealt, remainder) in remainders.iter_mut().take(size).enumerate() {
            let left = u64::try_from(queues.saturating_sub(dealt)).unwrap_or(1);
            *remainder = usize::try_from(rest.checked_rem(left).unwrap_or(0)).unwrap_or(0);
            rest = rest.checked_div(left).unwrap_or(0);
        }
        // Each remainder is an index among the queues that are still in the deck; skip those dealt before it.
        let mut cards = [0usize; HAND_MAX];
        for (dealt, (card, remainder)) in cards.iter_mut().zip(&remainders).take(size).enumerate() {
            let earlier = remainders.iter().take(dealt).rev();
            *card =
                earlier.fold(*remainder, |card, before| card.saturating_add(usize::from(card >= *before)));
        }
        Hand { cards, size }
    }

    /// The queues in the order of the deal.
    pub fn queues(&self) -> &[usize] {
        self.cards.get(..self.size).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_has_different_queues() {
        for hash in [0, 1, 12_345, u64::MAX, u64::MAX / 3] {
            let mut cards = Hand::deal(hash, 64, 8).queues().to_vec();
            assert!(cards.iter().all(|card| *card < 64));
            cards.sort_unstable();
            cards.dedup();
            assert_eq!(cards.len(), 8, "{hash}");
        }
        assert_eq!(Hand::deal(7, 1, 8).queues(), [0]);
    }

    #[test]
    fn all_hands_of_a_small_deck_are_dealt() {
        let mut hands: Vec<Vec<usize>> =
            (0..12).map(|hash| Hand::deal(hash, 4, 2).queues().to_vec()).collect();
        hands.sort();
        hands.dedup();
        assert_eq!(hands.len(), 12);
    }
}
