//! How many connections there may be, in all and of clients that have not said who they are.
//!
//! A connection is a stranger's until a request on it is authenticated. Where there are too many of those, the oldest one
//! of the address that has most gives way: a flood from one address costs that address its own connections, and whoever
//! authenticates soon after connecting is never among the oldest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The limit of unauthenticated connections, in all and from one address.
const UNAUTHENTICATED_MAX: usize = 8192;
const UNAUTHENTICATED_PER_ADDRESS_MAX: usize = 4096;

/// Counts connections and closes unauthenticated ones to make room.
pub(crate) struct ConnectionLimits {
    all_max: usize,
    strangers_max: usize,
    per_address_max: usize,
    all: AtomicUsize,
    unauthenticated: Mutex<Unauthenticated>,
}

#[derive(Default)]
struct Unauthenticated {
    /// By network and order of arrival: the signal that closes the connection.
    by_network: HashMap<Network, BTreeMap<u64, Arc<Notify>>>,
    count: usize,
    next: u64,
}

/// An IPv4 address, or an IPv6 /64, which usually belongs to one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Network(u128);

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Network(u128::from(u32::from(v4))),
            IpAddr::V6(v6) => Network(u128::from(v6) & !u128::from(u64::MAX)),
        }
    }
}

/// The slot of one connection, released on drop.
pub(crate) struct Admitted {
    limits: Arc<ConnectionLimits>,
    stranger: Mutex<Option<(Network, u64)>>,
    /// Wakes the connection's task.
    signal: Arc<Notify>,
}

impl ConnectionLimits {
    /// At most `all_max` connections, half of which may be unauthenticated.
    pub(crate) fn new(all_max: usize) -> Self {
        let strangers_max = UNAUTHENTICATED_MAX.min(all_max / 2);
        let per_address_max = UNAUTHENTICATED_PER_ADDRESS_MAX.min(strangers_max.div_ceil(2));
        ConnectionLimits {
            all_max,
            strangers_max,
            per_address_max,
            all: AtomicUsize::new(0),
            unauthenticated: Mutex::default(),
        }
    }

    /// Admits a connection, if necessary by closing an older unauthenticated one. `None` if there is no room and all
    /// connections are authenticated.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let network = Network::of(address);
        let signal = Arc::new(Notify::new());
        let mut unauthenticated = self.unauthenticated();
        if self.all.load(Ordering::Relaxed) >= self.all_max {
            // The evicted connection ends in a moment and counts until then, so that the limit is never exceeded.
            unauthenticated.evict_from_largest();
            return None;
        }
        if unauthenticated.of(network) >= self.per_address_max {
            unauthenticated.evict_oldest(network);
        } else if unauthenticated.count >= self.strangers_max {
            unauthenticated.evict_from_largest();
        }
        let number = unauthenticated.add(network, Arc::clone(&signal));
        self.all.fetch_add(1, Ordering::Relaxed);
        Some(Admitted { limits: Arc::clone(self), stranger: Mutex::new(Some((network, number))), signal })
    }

    fn unauthenticated(&self) -> MutexGuard<'_, Unauthenticated> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unauthenticated {
    fn of(&self, network: Network) -> usize {
        self.by_network.get(&network).map_or(0, BTreeMap::len)
    }

    fn add(&mut self, network: Network, signal: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.by_network.entry(network).or_default().insert(number, signal);
        self.count = self.count.saturating_add(1);
        number
    }

    fn remove(&mut self, network: Network, number: u64) {
        let Some(connections) = self.by_network.get_mut(&network) else { return };
        if connections.remove(&number).is_some() {
            self.count = self.count.saturating_sub(1);
        }
        if connections.is_empty() {
            self.by_network.remove(&network);
        }
    }

    fn evict_oldest(&mut self, network: Network) {
        let oldest = self.by_network.get(&network).and_then(BTreeMap::first_key_value);
        let Some((number, evicted)) = oldest.map(|(number, evicted)| (*number, Arc::clone(evicted))) else {
            return;
        };
        self.remove(network, number);
        evicted.notify_one();
    }

    fn evict_from_largest(&mut self) {
        let largest = self.by_network.iter().max_by_key(|(_, connections)| connections.len());
        if let Some(network) = largest.map(|(network, _)| *network) {
            self.evict_oldest(network);
        }
    }
}

impl Admitted {
    /// Marks the connection as authenticated: it is no longer evicted.
    pub(crate) fn authenticated(&self) {
        let stranger = self.stranger.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((network, number)) = stranger {
            self.limits.unauthenticated().remove(network, number);
        }
    }

    /// Waits until the connection must close, or [`Admitted::wake`] is called.
    pub(crate) async fn signalled(&self) {
        self.signal.notified().await;
    }

    /// Wakes the connection's task.
    pub(crate) fn wake(&self) {
        self.signal.notify_one();
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.authenticated();
        self.limits.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn is_evicted(admitted: &Admitted) -> bool {
        let mut waits = std::pin::pin!(admitted.signalled());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waits.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn a_flood_from_one_address_costs_that_address() {
        let limits = Arc::new(ConnectionLimits::new(16));
        let (flood, other) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        let stranger = limits.admit(other).unwrap();
        let known = limits.admit(flood).unwrap();
        known.authenticated();
        // Four of one address; the fifth and sixth end the first two.
        let flood: Vec<Admitted> = (0..6).map(|_| limits.admit(flood).unwrap()).collect();
        let evicted: Vec<bool> = flood.iter().map(is_evicted).collect();
        assert_eq!(evicted, [true, true, false, false, false, false]);
        assert!(!is_evicted(&known) && !is_evicted(&stranger));
        assert_eq!(limits.unauthenticated().count, 5);
        drop((flood, stranger, known));
        assert_eq!((limits.unauthenticated().count, limits.all.load(Ordering::Relaxed)), (0, 0));
        assert!(limits.unauthenticated().by_network.is_empty());
    }

    #[test]
    fn there_are_never_more_than_all() {
        let limits = Arc::new(ConnectionLimits::new(4));
        let address = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, last, 0, 0, 0, last));
        let known: Vec<Admitted> = (0..3).map(|last| limits.admit(address(last)).unwrap()).collect();
        known.iter().for_each(Admitted::authenticated);
        let stranger = limits.admit(address(9)).unwrap();
        assert!(limits.admit(address(8)).is_none());
        assert!(is_evicted(&stranger), "the next one finds room");
        drop(stranger);
        let last = limits.admit(address(8)).unwrap();
        last.authenticated();
        assert!(limits.admit(address(7)).is_none());
    }

    #[test]
    fn clients_of_one_network_count_together() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(of("fd00::1"), of("fd00::2"));
        assert_ne!(of("fd00::1"), of("fd00:0:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
