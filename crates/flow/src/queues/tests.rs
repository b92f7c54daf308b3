use super::*;
use std::collections::BTreeMap;

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

/// Simulates requests to a level. `offer` returns the request that arrives at a millisecond: flow, work, and how long
/// it executes. Returns for each flow: executed, rejected, and the longest wait in milliseconds.
fn play(
    mut level: FairQueues<()>,
    until_ms: u64,
    offer: impl Fn(u64) -> Vec<(u64, Work, u64)>,
) -> BTreeMap<u64, (u64, u64, u64)> {
    let mut outcomes: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    let mut known: BTreeMap<Ticket, (u64, u64, u64)> = BTreeMap::new();
    let mut ends: BTreeMap<u64, Vec<Ticket>> = BTreeMap::new();
    for now in 0..until_ms {
        let mut started = Vec::new();
        for ticket in ends.remove(&now).unwrap_or_default() {
            level.finish(ms(now), ticket);
            while let Some(ticket) = level.next_dispatched() {
                started.push(ticket);
            }
        }
        for (name, work, takes) in offer(now) {
            match level.arrive(ms(now), flow(name), work, ()) {
                Arrival::Execute(ticket, _) => {
                    known.insert(ticket, (name, now, takes));
                    started.push(ticket);
                }
                Arrival::Queued(ticket, _) => _ = known.insert(ticket, (name, now, takes)),
                Arrival::NoSeat | Arrival::QueueFull => outcomes.entry(name).or_default().1 += 1,
            }
            while let Some(ticket) = level.next_dispatched() {
                started.push(ticket);
            }
        }
        for ticket in started {
            let (name, arrived, takes) = known[&ticket];
            let row = outcomes.entry(name).or_default();
            row.0 += 1;
            row.2 = row.2.max(now - arrived);
            ends.entry(now + takes).or_default().push(ticket);
        }
    }
    outcomes
}

#[test]
fn an_elephant_does_not_tread_on_a_mouse() {
    // The elephant requests 40 times the available seats; the mouse sends a request every 100 ms.
    let level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 10);
    let outcomes = play(level, 10_000, |now| {
        let mut all = vec![(1, Work::ONE, 20); 20];
        if now % 100 == 0 {
            all.push((2, Work::ONE, 20));
        }
        all
    });
    let (elephant, mouse) = (outcomes[&1], outcomes[&2]);
    assert_eq!((mouse.0, mouse.1), (100, 0), "{outcomes:?}");
    // At most one request of the elephant must end before a request of the mouse executes.
    assert!(mouse.2 <= 20, "{outcomes:?}");
    assert!(elephant.0 > 4_400 && elephant.1 > 100_000, "{outcomes:?}");
}

#[test]
fn a_mouse_does_not_wait_for_work_that_an_elephant_has_under_way() {
    // Every request of the elephant takes much longer than estimated, and many are executing when the mouse arrives.
    for (seats, takes) in [(245, 500), (49, 100)] {
        let level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), seats);
        let outcomes = play(level, 10_000, |now| {
            let mut all: Vec<_> =
                (0..3).map(|n| (1, Work::ONE, takes / 2 + (now * 37 + n * 11) % takes)).collect();
            if now > 2_000 && now % 50 == 0 {
                all.push((2, Work::ONE, 1));
            }
            all
        });
        // Seats become free every few milliseconds, and the mouse gets the next one.
        assert!(outcomes[&2].0 > 150 && outcomes[&2].2 <= 20, "{seats} seats: {outcomes:?}");
    }
}

#[test]
fn a_mouse_does_not_wait_for_wide_and_long_requests_between_short_ones() {
    // Most requests of the elephant are short, so the recent execution times do not predict the next one.
    let level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 245);
    let outcomes = play(level, 20_000, |now| {
        let mut all: Vec<_> = (0..3).map(|n| (1, Work::ONE, 5 + (now + n) % 7)).collect();
        if now % 20 == 0 {
            let takes = 500 + now * 7919 % 3_000;
            all.push((1, Work { initial_seats: 10, final_seats: 10, ..Work::ONE }, takes));
        }
        if now > 5_000 && now % 50 == 0 {
            all.push((2, Work::ONE, 1));
        }
        all
    });
    // Long requests fill the level, and one of them ends every 80 ms or so.
    assert!(outcomes[&2].0 > 250 && outcomes[&2].2 <= 500, "{outcomes:?}");
}

/// A list that takes ten seats.
const LIST: Work = Work { initial_seats: 10, ..Work::ONE };

#[test]
fn a_mouse_does_not_wait_for_the_long_lists_of_elephants() {
    // Lists that take seconds would fill the level, and only their end would free a seat.
    for elephants in [1, 2, 5] {
        let level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 245);
        let outcomes = play(level, 6_000, |now| {
            let mut all = Vec::new();
            if now % 10 == 0 {
                all.extend((1..=elephants).map(|name| (name, LIST, 500 + now * 7919 % 3_000)));
                all.extend((1..=elephants).map(|name| (name, Work::ONE, 5)));
            }
            if now % 50 == 0 {
                all.push((100, Work::ONE, 1));
            }
            all
        });
        assert_eq!((outcomes[&100].0, outcomes[&100].2), (120, 0), "{elephants} elephants: {outcomes:?}");
    }
}

#[test]
fn a_flow_alone_takes_all_seats_and_its_queues_have_an_end() {
    for (seats, width) in [(1, 1), (7, 1), (8, 1), (20, 1), (245, 1), (245, 5)] {
        let mut level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), seats);
        let work = Work { initial_seats: width, ..Work::ONE };
        let arrivals: Vec<_> = (0..1_000).map(|_| level.arrive(ms(0), flow(1), work, ())).collect();
        assert_eq!(level.seats_in_use(), seats, "{seats} seats");
        let most = OPTIONS.hand_size * OPTIONS.queue_length_max;
        assert_eq!((level.waiting(), arrivals[999]), (most, Arrival::QueueFull));
        // Another flow waits for the first seat that becomes free, and the level never has more than its seats.
        let other = ticket(level.arrive(ms(0), flow(2), Work::ONE, ()));
        assert_eq!(level.seats_in_use(), seats, "{seats} seats");
        let mut executing: Vec<_> = arrivals
            .into_iter()
            .filter_map(|arrival| match arrival {
                Arrival::Execute(ticket, _) => Some(ticket),
                _ => None,
            })
            .collect();
        let mut ended = 0;
        while let Some(ticket) = executing.pop() {
            level.finish(ms(1), ticket);
            executing.extend(std::iter::from_fn(|| level.next_dispatched()));
            ended += 1;
            assert!(level.seats_in_use() <= seats);
            assert!(ended < 2 || seats < 8 || !level.get(other).is_some_and(|r| r.phase == Phase::Waiting));
        }
        assert!(level.is_idle() && level.flows.is_empty() && ended > most, "{seats} seats: {ended}");
    }
}

#[test]
fn seats_are_reserved_while_several_flows_have_requests() {
    let mut level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 16);
    let mut fill = |at: u64| {
        let all: Vec<Ticket> =
            (0..20).map(|_| ticket(level.arrive(ms(at), flow(1), Work::ONE, ()))).collect();
        let seats = level.seats_in_use();
        let other = ticket(level.arrive(ms(at), flow(2), Work::ONE, ()));
        for ticket in all.into_iter().chain([other]) {
            level.finish(ms(at + 1), ticket);
            level.cancel(ms(at + 1), ticket);
        }
        seats
    };
    // The other flow is known from its second request on, and forgotten a minute after its last request.
    assert_eq!([fill(0), fill(30_000), fill(89_000), fill(149_001)], [16, 14, 14, 16]);
}

#[test]
fn quiet_flows_do_not_hold_up_a_wide_request() {
    // Fourteen seats for all, two for flows that hold none.
    let mut level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 16);
    let busy: Vec<Ticket> = (0..14).map(|n| ticket(level.arrive(ms(0), flow(n), Work::ONE, ()))).collect();
    let wide = ticket(level.arrive(ms(0), flow(0), Work { initial_seats: 4, ..Work::ONE }, ()));
    let quiet: Vec<Arrival> = (100..200).map(|n| level.arrive(ms(100), flow(n), Work::ONE, ())).collect();
    assert_eq!(quiet.iter().filter(|arrival| matches!(arrival, Arrival::Execute(..))).count(), 2);
    for (at, ticket) in busy.iter().take(4).enumerate() {
        assert!(level.get(wide).is_some_and(|request| request.phase == Phase::Waiting), "{at}");
        level.finish(ms(101), *ticket);
    }
    assert_eq!((dispatched(&mut level), level.seats_in_use()), (vec![wide], 16));
    // A reserved seat goes to the next flow that holds none.
    level.finish(ms(102), ticket(quiet[0]));
    assert_eq!((dispatched(&mut level).len(), level.seats_in_use()), (1, 16));
}

#[test]
fn wide_requests_pay_for_their_width() {
    // Both flows always have work. The requests of one are ten times as wide: it executes a tenth as many.
    let wide = Work { initial_seats: 10, ..Work::ONE };
    let options = QueueOptions { queues: 64, hand_size: 1, queue_length_max: 50 };
    let outcomes = play(FairQueues::new(ms(0), Queuing::Queue(options), 20), 20_000, |_| {
        vec![(1, wide, 10), (2, Work::ONE, 10), (2, Work::ONE, 10)]
    });
    let ratio = outcomes[&2].0 as f64 / outcomes[&1].0 as f64;
    assert!((8.0..12.0).contains(&ratio), "{outcomes:?}");
}

#[test]
fn ten_thousand_flows_are_served_alike() {
    // Each flow sends a request every five seconds; together they need half of the seats.
    let level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 40);
    let outcomes = play(level, 20_000, |now| {
        (0..10_000).filter(|f| now % 5_000 == f / 2).map(|f| (f, Work::ONE, 10)).collect()
    });
    assert_eq!(outcomes.len(), 10_000);
    let (executed, rejected): (u64, u64) =
        outcomes.values().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    assert_eq!(rejected, 0);
    assert_eq!(executed, 40_000);
    assert!(outcomes.values().all(|row| row.2 <= 10), "nobody waits longer than one request takes");
}

fn ticket(arrival: Arrival) -> Ticket {
    match arrival {
        Arrival::Execute(ticket, _) | Arrival::Queued(ticket, _) => ticket,
        other => panic!("it is let in: {other:?}"),
    }
}

fn dispatched<P>(level: &mut FairQueues<P>) -> Vec<Ticket> {
    std::iter::from_fn(|| level.next_dispatched()).collect()
}

#[test]
fn without_queues_what_does_not_fit_is_rejected() {
    let mut level = FairQueues::new(ms(0), Queuing::Reject, 1);
    let first = ticket(level.arrive(ms(0), 1, Work::ONE, ()));
    assert_eq!(level.arrive(ms(1), 1, Work::ONE, ()), Arrival::NoSeat);
    level.finish(ms(2), first);
    assert!(matches!(level.arrive(ms(3), 1, Work::ONE, ()), Arrival::Execute(_, None)));
    assert_eq!((level.totals().dispatched, level.totals().rejected), (2, 1));
}

#[test]
fn an_exempt_level_has_a_seat_for_everybody() {
    let mut level = FairQueues::new(ms(0), Queuing::Exempt, 0);
    let tickets: Vec<Ticket> = (0..1_000).map(|_| ticket(level.arrive(ms(0), 0, Work::ONE, ()))).collect();
    assert_eq!((level.executing(), level.seats_in_use()), (1_000, 1_000));
    tickets.into_iter().for_each(|ticket| _ = level.finish(ms(1), ticket));
    assert!(level.is_idle() && level.seats_in_use() == 0);
}

#[test]
fn a_waiting_request_can_leave_and_a_wide_one_waits_for_all_seats() {
    let mut level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 2);
    let first = ticket(level.arrive(ms(0), 1, Work::ONE, ()));
    let wide = Work { initial_seats: 5, ..Work::ONE };
    let second = ticket(level.arrive(ms(0), 2, wide, ()));
    assert_eq!(level.take_blocked(), Some(second));
    let third = ticket(level.arrive(ms(0), 3, wide, ()));
    assert_eq!(level.waiting(), 2);
    assert!(level.cancel(ms(1), third) && !level.cancel(ms(1), third));
    level.finish(ms(2), first);
    assert_eq!(dispatched(&mut level), [second]);
    assert_eq!(level.seats_in_use(), 5);
    level.finish(ms(3), second);
    assert_eq!((level.seats_in_use(), level.waiting()), (0, 0));
}

#[test]
fn a_queue_is_full_only_while_all_seats_are_taken() {
    let options = QueueOptions { queues: 1, hand_size: 1, queue_length_max: 2 };
    let mut level = FairQueues::new(ms(0), Queuing::Queue(options), 1);
    let first = ticket(level.arrive(ms(0), 0, Work::ONE, ()));
    for length in 1..=2 {
        assert!(matches!(level.arrive(ms(0), 0, Work::ONE, ()), Arrival::Queued(_, at) if at == length));
    }
    assert_eq!(level.arrive(ms(0), 0, Work::ONE, ()), Arrival::QueueFull);
    let rows: Vec<(Option<usize>, Option<usize>)> =
        level.requests().iter().map(|(queue, position, _)| (*queue, *position)).collect();
    assert_eq!(rows, [(Some(0), Some(0)), (Some(0), Some(1)), (Some(0), None)]);
    level.finish(ms(1), first);
    assert_eq!((level.executing(), level.waiting()), (1, 1));
}

#[test]
fn seats_linger_for_the_watchers_of_a_write() {
    let mut level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 4);
    let work = Work { initial_seats: 1, final_seats: 8, additional_latency: ms(10) };
    let first = ticket(level.arrive(ms(0), 1, work, ()));
    // The request needs more seats than the level has: it gets fewer seats for a longer time.
    assert_eq!(
        level.get(first).map(|r| r.work),
        Some(Work { final_seats: 4, additional_latency: ms(20), ..work })
    );
    let second = ticket(level.arrive(ms(0), 2, Work::ONE, ()));
    assert_eq!(level.finish(ms(5), first), Some(ms(25)));
    assert_eq!((level.executing(), level.seats_in_use()), (0, 4));
    assert_eq!(level.expire(ms(24)), Some(ms(25)));
    assert!(dispatched(&mut level).is_empty());
    assert_eq!(level.expire(ms(25)), None);
    assert_eq!(dispatched(&mut level), [second]);
    assert_eq!(level.next_released(), Some(((), 4)));
}

#[test]
fn queues_are_added_at_once_and_removed_when_empty() {
    let options = |queues| Queuing::Queue(QueueOptions { queues, hand_size: 1, queue_length_max: 5 });
    let mut level = FairQueues::new(ms(0), options(2), 2);
    let tickets =
        [ticket(level.arrive(ms(0), 0, Work::ONE, ())), ticket(level.arrive(ms(0), 1, Work::ONE, ()))];
    level.configure(ms(1), options(3), 2);
    assert_eq!(level.queues().count(), 3);
    level.configure(ms(1), Queuing::Reject, 2);
    assert_eq!(level.queues().count(), 3);
    tickets.into_iter().for_each(|ticket| _ = level.finish(ms(2), ticket));
    assert_eq!(level.queues().count(), 1);
    assert_eq!(level.seats_in_use(), 0);
}

#[test]
fn more_seats_are_used_at_once() {
    let mut level = FairQueues::new(ms(0), Queuing::Queue(OPTIONS), 1);
    ticket(level.arrive(ms(0), 1, Work::ONE, ()));
    let waiting: Vec<Ticket> = (0..3).map(|n| ticket(level.arrive(ms(0), n, Work::ONE, ()))).collect();
    level.configure(ms(1), Queuing::Queue(OPTIONS), 3);
    assert_eq!(dispatched(&mut level).len(), 2);
    assert_eq!(
        waiting.iter().filter(|t| level.get(**t).is_some_and(|r| r.phase == Phase::Waiting)).count(),
        1
    );
}
