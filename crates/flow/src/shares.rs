//! Shares: how many seats each priority level gets, from its nominal shares, from what it lends and may borrow, and
//! from the current demand of all levels.

/// The lower bound of targets, so that proportions are finite.
const TARGET_MIN: f64 = 0.001;
const EPSILON: f64 = 1e-7;

/// The concurrency that a priority level is configured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Shares of all seats.
    pub nominal: u64,
    /// The percentage of the level's seats that others may borrow.
    pub lendable_percent: u64,
    /// How many seats the level may borrow, in percent of its own; `None` means up to all seats of the server.
    pub borrowing_percent: Option<u64>,
}

/// The seats of a level: nominal, minimum and maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the metrics")]
pub struct Limits {
    pub nominal: u64,
    pub lower: u64,
    pub upper: u64,
}

impl Limits {
    /// Computes the seats of a level if the server has `total` seats and all levels together have `shares`. The
    /// results are rounded up, so their sum may exceed the total by a few.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as Go computes it"
    )]
    pub fn new(level: Shares, total: u64, shares: u64) -> Self {
        let nominal = (total as f64 * level.nominal as f64 / shares.max(1) as f64).ceil() as u64;
        let percent = |percent: u64| (nominal as f64 * percent as f64 / 100.0).round() as u64;
        Limits {
            nominal,
            lower: nominal.saturating_sub(percent(level.lendable_percent)),
            upper: nominal.saturating_add(level.borrowing_percent.map_or(total, percent)),
        }
    }

    /// The seats of a new level, before its demand is known.
    pub fn initial(&self) -> u64 {
        self.nominal.saturating_sub(self.nominal.saturating_sub(self.lower) / 2)
    }
}

/// A level that takes part in the division.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Claim {
    pub lower: f64,
    pub upper: f64,
    pub target: f64,
}

/// Divides `sum` seats: each level gets its target times the same proportion, but at least its lower and at most its
/// upper bound. Returns the seats of each level and the proportion; `None` if the bounds do not allow the sum.
pub fn allocate(sum: u64, claims: &[Claim]) -> Option<(Vec<f64>, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "a small number of seats")]
    let sum = sum as f64;
    let target = |claim: &Claim| claim.target.max(TARGET_MIN);
    let is_sane =
        |claim: &Claim| 0.0 <= claim.lower && claim.lower <= claim.upper && claim.lower <= target(claim);
    let low: f64 = claims.iter().map(|claim| claim.lower).sum();
    let high: f64 = claims.iter().map(|claim| claim.upper).sum();
    if !claims.iter().all(is_sane) || low - sum > EPSILON || sum - high > EPSILON {
        return None;
    }
    let given = |proportion: f64| -> Vec<f64> {
        claims.iter().map(|claim| (proportion * target(claim)).min(claim.upper).max(claim.lower)).collect()
    };
    // The sum of the seats is a piecewise linear function of the proportion: find the segment, then the point on it.
    let mut bounds: Vec<f64> =
        claims.iter().flat_map(|claim| [claim.lower / target(claim), claim.upper / target(claim)]).collect();
    bounds.sort_by(f64::total_cmp);
    let total = |proportion: f64| given(proportion).iter().sum::<f64>();
    let above = bounds.iter().copied().find(|bound| total(*bound) >= sum - EPSILON);
    let end = above.or(bounds.last().copied()).unwrap_or(0.0);
    let begin = bounds.iter().copied().rfind(|bound| *bound < end).unwrap_or(end);
    let (at_begin, at_end) = (total(begin), total(end));
    let proportion = match at_end - at_begin {
        rise if rise > EPSILON => begin + (end - begin) * (sum - at_begin) / rise,
        _ => end,
    };
    Some((given(proportion), proportion))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(nominal: u64, lendable_percent: u64) -> Shares {
        Shares { nominal, lendable_percent, borrowing_percent: None }
    }

    #[test]
    fn seats_follow_shares() {
        // The suggested levels of kube-apiserver with its default limits, 400 + 200.
        let levels = [(30, 33), (40, 25), (10, 0), (40, 50), (100, 90), (20, 50), (5, 0), (0, 0)];
        let limits = levels.map(|(nominal, lendable)| Limits::new(shares(nominal, lendable), 600, 245));
        assert_eq!(limits.map(|l| l.nominal), [74, 98, 25, 98, 245, 49, 13, 0]);
        assert_eq!(limits.map(|l| l.lower), [50, 73, 25, 49, 24, 24, 13, 0]);
        assert_eq!(limits.map(|l| l.upper), [674, 698, 625, 698, 845, 649, 613, 600]);
    }

    fn divide(sum: u64, claims: &[(f64, f64, f64)]) -> Option<Vec<u64>> {
        let claims: Vec<Claim> = claims
            .iter()
            .map(|(lower, upper, target)| Claim { lower: *lower, upper: *upper, target: *target })
            .collect();
        let (seats, _) = allocate(sum, &claims)?;
        Some(seats.iter().map(|seats| seats.round() as u64).collect())
    }

    #[test]
    fn idle_seats_are_lent_and_come_back() {
        assert_eq!(divide(100, &[(10.0, 150.0, 10.0), (10.0, 150.0, 200.0)]), Some(vec![10, 90]));
        assert_eq!(divide(100, &[(50.0, 150.0, 50.0), (50.0, 150.0, 200.0)]), Some(vec![50, 50]));
        assert_eq!(divide(100, &[(10.0, 150.0, 10.0), (10.0, 150.0, 10.0)]), Some(vec![50, 50]));
        assert_eq!(divide(100, &[(0.0, 150.0, 0.0), (0.0, 150.0, 0.0)]), Some(vec![50, 50]));
    }

    #[test]
    fn borrowing_is_limited() {
        assert_eq!(divide(100, &[(0.0, 50.0, 0.0), (50.0, 60.0, 500.0)]), Some(vec![40, 60]));
        assert_eq!(divide(100, &[(0.0, 30.0, 0.0), (50.0, 60.0, 500.0)]), None);
        assert_eq!(divide(100, &[(60.0, 90.0, 60.0), (50.0, 90.0, 50.0)]), None);
        assert_eq!(divide(110, &[(60.0, 90.0, 60.0), (50.0, 90.0, 50.0)]), Some(vec![60, 50]));
    }
}
