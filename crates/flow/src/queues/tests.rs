use super::*;

const OPTIONS: QueueOptions = QueueOptions { queues: 64, hand_size: 8, queue_length_max: 50 };

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A hash that spreads the numbers of flows.
fn flow(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Plays requests against a level. `offer` says what arrives at a millisecond: flow, work, and how long it executes.
/// Returns for each flow: executed, rejected, and the longest wait in milliseconds.
fn play(
    mut level: FairQueues,
    until_ms: u64,
    offer: impl Fn(u64) -> Vec<(u64, Work, u64)>,
) -> BTreeMap<u64, (u64, u64, u64)> {
    let mut told: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    let mut known: BTreeMap<Ticket, (u64, u64, u64)> = BTreeMap::new();
    let mut ends: BTreeMap<u64, Vec<Ticket>> = BTreeMap::new();
    for now in 0..until_ms {
        let mut started = Vec::new();
        for ticket in ends.remove(&now).unwrap_or_default() {
            started.extend(level.finish(ms(now), ticket));
        }
        for (name, work, takes) in offer(now) {
            match level.arrive(ms(now), flow(name), work) {
                Arrival::Execute(ticket) => {
                    known.insert(ticket, (name, now, takes));
                    started.push(ticket);
                }
                Arrival::Queued(ticket) => _ = known.insert(ticket, (name, now, takes)),
                Arrival::Rejected => told.entry(name).or_default().1 += 1,
            }
        }
        for ticket in started {
            let (name, arrived, takes) = known[&ticket];
            let row = told.entry(name).or_default();
            row.0 += 1;
            row.2 = row.2.max(now - arrived);
            ends.entry(now + takes).or_default().push(ticket);
        }
    }
    told
}

#[test]
fn an_elephant_does_not_tread_on_a_mouse() {
    // The elephant wants 40 times of what there is; the mouse asks every 100 ms.
    let level = FairQueues::new(OPTIONS, 10);
    let told = play(level, 10_000, |now| {
        let mut all = vec![(1, Work::ONE, 20); 20];
        if now % 100 == 0 {
            all.push((2, Work::ONE, 20));
        }
        all
    });
    let (elephant, mouse) = (told[&1], told[&2]);
    assert_eq!((mouse.0, mouse.1), (100, 0), "{told:?}");
    // At most one request of the elephant must end first.
    assert!(mouse.2 <= 20, "{told:?}");
    assert!(elephant.0 > 4_500 && elephant.1 > 100_000, "{told:?}");
}

#[test]
fn wide_requests_pay_for_their_width() {
    // Both flows always have work. The requests of one are ten times as wide: it executes a tenth as many.
    let wide = Work { initial_seats: 10, ..Work::ONE };
    let options = QueueOptions { queues: 64, hand_size: 1, queue_length_max: 50 };
    let told = play(FairQueues::new(options, 20), 20_000, |_| {
        vec![(1, wide, 10), (2, Work::ONE, 10), (2, Work::ONE, 10)]
    });
    let ratio = told[&2].0 as f64 / told[&1].0 as f64;
    assert!((8.0..12.0).contains(&ratio), "{told:?}");
}

#[test]
fn ten_thousand_flows_are_served_alike() {
    // Each flow sends a request every five seconds, all together half of what there is.
    let level = FairQueues::new(OPTIONS, 40);
    let told = play(level, 20_000, |now| {
        (0..10_000).filter(|f| now % 5_000 == f / 2).map(|f| (f, Work::ONE, 10)).collect()
    });
    assert_eq!(told.len(), 10_000);
    let (executed, rejected): (u64, u64) =
        told.values().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    assert_eq!(rejected, 0);
    assert_eq!(executed, 40_000);
    assert!(told.values().all(|row| row.2 <= 10), "nobody waits longer than one request takes");
}

#[test]
fn without_queues_what_does_not_fit_is_refused() {
    let mut level = FairQueues::new(QueueOptions { queues: 0, hand_size: 0, queue_length_max: 0 }, 1);
    let Arrival::Execute(first) = level.arrive(ms(0), 1, Work::ONE) else { panic!("there is a seat") };
    assert_eq!(level.arrive(ms(1), 1, Work::ONE), Arrival::Rejected);
    level.finish(ms(2), first);
    assert!(matches!(level.arrive(ms(3), 1, Work::ONE), Arrival::Execute(_)));
}

#[test]
fn whoever_waits_can_go_and_a_wide_request_waits_for_all_seats() {
    let mut level = FairQueues::new(OPTIONS, 2);
    let Arrival::Execute(first) = level.arrive(ms(0), 1, Work::ONE) else { panic!("there is a seat") };
    let wide = Work { initial_seats: 5, ..Work::ONE };
    let Arrival::Queued(second) = level.arrive(ms(0), 2, wide) else { panic!("it is too wide") };
    let Arrival::Queued(third) = level.arrive(ms(0), 3, wide) else { panic!("it is too wide") };
    assert!(level.cancel(ms(1), third) && !level.cancel(ms(1), third));
    assert_eq!(level.finish(ms(2), first), [second]);
    assert_eq!(level.seats_in_use(), 5);
    level.finish(ms(3), second);
    assert_eq!((level.seats_in_use(), level.waiting()), (0, 0));
}
