//! Shares: how many seats each priority level has, by its shares of all seats, by what it lends and may borrow, and by what
//! the levels need at the moment.

/// What a priority level asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Shares of all seats.
    pub shares: u64,
    /// Percent of its seats that others may borrow.
    pub lendable_percent: u64,
    /// Percent of its seats that it may borrow; `None`: any number.
    pub borrowing_percent: Option<u64>,
}

/// The seats of a level: by right, at least, at most.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the metrics")]
pub struct Seats {
    pub nominal: u64,
    pub lower: u64,
    pub upper: u64,
}

/// The seats of each level when the server has `total` of them. A level has its part, rounded up.
pub fn seats_of(levels: &[Level], total: u64) -> Vec<Seats> {
    let shares: u64 = levels.iter().map(|level| level.shares).sum::<u64>().max(1);
    let seats = |level: &Level| {
        let nominal = (total * level.shares).div_ceil(shares);
        let percent = |percent: u64| (nominal as f64 * percent as f64 / 100.0).round() as u64;
        Seats {
            nominal,
            lower: nominal.saturating_sub(percent(level.lendable_percent)),
            upper: level.borrowing_percent.map_or(total, |p| nominal + percent(p)),
        }
    };
    levels.iter().map(seats).collect()
}

/// Divides `total` seats among levels by what they need now: everyone gets at least its lower and at most its upper limit, and
/// in between the same proportion of its need. `demand` is the smoothed demand of each level, in seats.
pub fn allocate(seats: &[Seats], demand: &[f64], total: u64) -> Vec<u64> {
    let lower: Vec<f64> = seats
        .iter()
        .zip(demand)
        // A level that needs its own seats keeps them: it lends only what it does not use.
        .map(|(s, demand)| (s.lower as f64).max(demand.min(s.nominal as f64)))
        .collect();
    let floor: f64 = lower.iter().sum();
    let total = total as f64;
    if floor >= total {
        return lower.iter().map(|seats| (seats * total / floor).round() as u64).collect();
    }
    let given = |proportion: f64| -> Vec<f64> {
        let one = |((s, low), demand): ((&Seats, &f64), &f64)| {
            (proportion * demand.max(1.0)).clamp(*low, (s.upper as f64).max(*low))
        };
        seats.iter().zip(&lower).zip(demand).map(one).collect()
    };
    // What is given grows with the proportion: halve the interval until it fits.
    let (mut low, mut high) = (0.0, total.max(1.0));
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if given(middle).iter().sum::<f64>() > total { high = middle } else { low = middle }
    }
    given(low).iter().map(|seats| seats.round() as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(shares: u64, lendable_percent: u64) -> Level {
        Level { shares, lendable_percent, borrowing_percent: None }
    }

    #[test]
    fn seats_follow_shares() {
        // The suggested levels of kube-apiserver with its default limits, 400 + 200.
        let levels = [(30, 33), (40, 25), (10, 0), (40, 50), (100, 90), (20, 50), (5, 0)];
        let levels: Vec<Level> = levels.iter().map(|(s, l)| level(*s, *l)).collect();
        let seats = seats_of(&levels, 600);
        let nominal: Vec<u64> = seats.iter().map(|s| s.nominal).collect();
        assert_eq!(nominal, [74, 98, 25, 98, 245, 49, 13]);
        let lower: Vec<u64> = seats.iter().map(|s| s.lower).collect();
        assert_eq!(lower, [50, 73, 25, 49, 24, 24, 13]);
    }

    #[test]
    fn idle_seats_are_lent_and_come_back() {
        let seats = seats_of(&[level(50, 80), level(50, 80)], 100);
        assert_eq!(allocate(&seats, &[0.0, 200.0], 100), [10, 90]);
        assert_eq!(allocate(&seats, &[50.0, 200.0], 100), [50, 50]);
        let even = allocate(&seats, &[10.0, 10.0], 100);
        assert_eq!(even, [50, 50]);
    }

    #[test]
    fn borrowing_is_limited() {
        let mut levels = [level(50, 100), level(50, 0)];
        levels[1].borrowing_percent = Some(20);
        let seats = seats_of(&levels, 100);
        assert_eq!(allocate(&seats, &[0.0, 500.0], 100)[1], 60);
    }
}
