//! Work estimates: how many seats a request takes, and for how long after its answer. The numbers are kube-apiserver's.

use crate::SeatSeconds;
use std::time::Duration;

/// The bytes of objects in memory that count as a seat.
const BYTES_PER_SEAT: u64 = 100_000;
/// The maximum size that counts for a list from the cache, because such a list is streamed.
const STREAMED_BYTES_MAX: u64 = 1_000_000;
/// The maximum number of seats of a list, and of a write.
const LIST_SEATS_MAX: u64 = 100;
const WRITE_SEATS_MAX: u64 = 10;
/// The number of watchers that count as one seat, and how long such a seat is held.
const WATCHES_PER_SEAT: u64 = 10;
const EVENT_TIME: Duration = Duration::from_millis(5);

/// The cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Seats during its execution.
    pub initial_seats: u64,
    /// Seats after its execution, for the work that it causes elsewhere (watchers that are notified of a write).
    pub final_seats: u64,
    /// How long the final seats are held.
    pub additional_latency: Duration,
}

impl Work {
    /// A request that takes one seat while it executes.
    pub const ONE: Work = Work { initial_seats: 1, final_seats: 0, additional_latency: Duration::ZERO };

    /// The maximum number of seats at any time; all of them are held the whole time.
    pub fn max_seats(&self) -> u64 {
        self.initial_seats.max(self.final_seats)
    }

    /// The work that remains when the request is answered.
    pub(crate) fn final_work(&self) -> SeatSeconds {
        as_work(self.final_seats, self.additional_latency)
    }

    /// The total work, with an estimated execution time.
    pub(crate) fn total(&self, execution_guess: Duration) -> SeatSeconds {
        as_work(self.initial_seats, execution_guess) + self.final_work()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number of seats")]
pub(crate) fn as_work(seats: u64, time: Duration) -> SeatSeconds {
    SeatSeconds::new(seats as f64, time)
}

/// The stored objects of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The number of objects.
    pub objects: u64,
    /// The average size of an object in bytes.
    pub average_bytes: u64,
}

/// The parameters of a list or watch that determine its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListParameters<'a> {
    /// Whether the request is a watch.
    pub watch: bool,
    /// Whether the request is for a single name.
    pub single: bool,
    /// `limit`.
    pub limit: u64,
    /// `resourceVersion`.
    pub resource_version: &'a str,
    /// `resourceVersionMatch`.
    pub resource_version_match: &'a str,
    /// Whether the list has a `continue` token.
    pub continues: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: bool,
    /// Whether objects are selected by fields or labels.
    pub selects: bool,
}

impl ListParameters<'_> {
    /// Whether kube-apiserver would answer from its watch cache.
    fn is_from_cache(&self) -> bool {
        let exact = self.limit > 0 && !matches!(self.resource_version, "" | "0");
        self.watch
            || match self.resource_version_match {
                "NotOlderThan" => true,
                "" => !self.continues && !exact,
                _ => false,
            }
    }

    /// The cost of a list or watch. `stored` is `None` for a resource that is unknown here, such as one of an extension
    /// server; `level_seats` is the limit of its priority level, 0 if there is none.
    pub fn work(&self, stored: Option<Stored>, level_seats: u64) -> Work {
        let is_replayed = self.send_initial_events || matches!(self.resource_version, "" | "0");
        let Some(stored) = stored.filter(|_| !self.watch || is_replayed) else { return Work::ONE };
        let limited = if self.limit > 0 { self.limit.min(stored.objects) } else { stored.objects };
        let from_cache = self.is_from_cache();
        let objects = match () {
            () if self.single => 1,
            () if !from_cache && self.selects => limited.max(stored.objects / 2),
            () => limited,
        };
        let bytes = objects.saturating_mul(stored.average_bytes);
        let bytes = if from_cache { bytes.min(STREAMED_BYTES_MAX) } else { bytes };
        let seats = bytes.div_ceil(BYTES_PER_SEAT).clamp(1, list_seats_max(level_seats));
        Work { initial_seats: seats, ..Work::ONE }
    }
}

/// The cost of a list with invalid parameters.
pub fn unreadable_list(level_seats: u64) -> Work {
    Work { initial_seats: list_seats_max(level_seats), ..Work::ONE }
}

fn list_seats_max(level_seats: u64) -> u64 {
    if level_seats == 0 { LIST_SEATS_MAX } else { level_seats.min(LIST_SEATS_MAX) }
}

/// The cost of a write of which this many watches are notified.
pub fn write(watches: u64, level_seats: u64) -> Work {
    if watches < WATCHES_PER_SEAT {
        return Work::ONE;
    }
    let most = if level_seats == 0 { WRITE_SEATS_MAX } else { level_seats.min(WRITE_SEATS_MAX) };
    let wanted = watches.div_ceil(WATCHES_PER_SEAT);
    let work = as_work(wanted, EVENT_TIME);
    // Fewer seats for a longer time, but the same work.
    let final_seats = wanted.min(most);
    Work { initial_seats: 1, final_seats, additional_latency: work.per_seat(final_seats) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_cost_what_they_hold_in_memory() {
        let stored = Some(Stored { objects: 1_000, average_bytes: 5_000 });
        let all = ListParameters::default();
        let page = ListParameters { limit: 100, ..all };
        let watch = ListParameters { watch: true, ..all };
        for (parameters, stored, level_seats, want) in [
            (all, stored, 0, 10),
            (all, stored, 4, 4),
            (all, None, 0, 1),
            (ListParameters { single: true, ..all }, stored, 0, 1),
            (page, stored, 0, 5),
            // This list does not come from the cache, so it is not streamed.
            (ListParameters { continues: true, ..all }, stored, 0, 50),
            (ListParameters { continues: true, selects: true, ..page }, stored, 0, 25),
            (ListParameters { resource_version: "5", ..page }, stored, 0, 5),
            (watch, stored, 0, 10),
            (ListParameters { resource_version: "5", ..watch }, stored, 0, 1),
            (ListParameters { resource_version: "5", send_initial_events: true, ..watch }, stored, 0, 10),
        ] {
            assert_eq!(parameters.work(stored, level_seats).initial_seats, want, "{parameters:?}");
        }
    }

    #[test]
    fn writes_pay_for_their_watchers() {
        assert_eq!(write(9, 0), Work::ONE);
        let ms = Duration::from_millis;
        assert_eq!(write(95, 0), Work { initial_seats: 1, final_seats: 10, additional_latency: ms(5) });
        assert_eq!(write(200, 0), Work { initial_seats: 1, final_seats: 10, additional_latency: ms(10) });
        assert_eq!(write(200, 2), Work { initial_seats: 1, final_seats: 2, additional_latency: ms(50) });
    }
}
