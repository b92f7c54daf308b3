//! `Retry-After` of rejected requests: the more a priority level rejects, the longer clients must wait.

/// The longest time, in seconds.
const SECONDS_MAX: u64 = 32;

/// The rejected requests of one priority level.
#[derive(Clone, Debug)]
pub struct RetryAfter {
    /// Rejections by second, oldest first; never longer than [`SECONDS_MAX`] seconds back.
    history: Vec<(u64, u64)>,
    second: u64,
    rejected: u64,
    seconds: u64,
    raised: u64,
}

impl Default for RetryAfter {
    fn default() -> Self {
        RetryAfter { history: Vec::new(), second: 0, rejected: 0, seconds: 1, raised: 0 }
    }
}

impl RetryAfter {
    /// Counts a rejection in this second of the clock; returns the seconds after which the client may retry.
    pub fn rejected(&mut self, second: u64) -> u64 {
        if second == self.second {
            self.rejected = self.rejected.saturating_add(1);
            return self.seconds;
        }
        let ended = self.second;
        self.history.push((ended, self.rejected));
        let oldest = self.seconds.saturating_mul(2).min(SECONDS_MAX);
        self.history.retain(|(at, _)| ended.saturating_sub(*at) <= oldest);
        self.second = second;
        self.rejected = 1;
        self.adjust(second);
        self.seconds
    }

    /// Doubles the retry time if many requests were rejected within it, and shortens it by a second if few were.
    fn adjust(&mut self, second: u64) {
        let recent =
            self.history.iter().filter(|(at, _)| second.saturating_sub(*at) <= self.seconds && *at < second);
        let rejected: u64 = recent.map(|(_, count)| count).sum();
        if second.saturating_sub(self.raised) >= self.seconds && rejected >= self.seconds.saturating_mul(3) {
            self.seconds = self.seconds.saturating_mul(2).min(SECONDS_MAX);
            self.raised = second;
        } else if rejected < self.seconds && self.seconds > 1 {
            self.seconds = self.seconds.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_sent_away_for_longer_while_rejections_go_on() {
        let mut retry = RetryAfter::default();
        let mut per_second =
            |second: u64, count: u64| (0..count).map(|_| retry.rejected(second)).last().unwrap();
        assert_eq!(per_second(1_000, 10), 1);
        assert_eq!(per_second(1_001, 10), 2);
        // The time does not change again before it has passed.
        assert_eq!(per_second(1_002, 10), 2);
        assert_eq!(per_second(1_003, 10), 4);
        assert_eq!(per_second(1_100, 1), 3);
        for second in 1_101..1_300 {
            per_second(second, 1_000);
        }
        assert_eq!(per_second(1_300, 1), 32);
    }
}
