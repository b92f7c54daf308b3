//! Limits on the number of connections: of all clients, and of unauthenticated clients.
//!
//! A connection counts as unauthenticated until a request on it is authenticated. If there are too many of them, the
//! server closes one from the address that has the most: the oldest of those at the stage that most of them have
//! reached. A flood from one address therefore closes connections of that address only; a client that authenticates
//! soon after connecting is never among the oldest; and a flood of connections that send no TLS does not close those
//! from the same address that wait for their handshake.

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
    by_network: HashMap<Network, UnauthenticatedConnections>,
    count: usize,
    next: u64,
}

/// How far an unauthenticated connection has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The client has sent nothing, or something that is not TLS.
    Silent,
    /// The client has sent the beginning of a handshake.
    Greeted,
    /// The handshake is complete.
    Secured,
}

/// The number of stages.
const STAGES: usize = 3;

/// The unauthenticated connections of a network: for each stage, by order of arrival, the signal that closes the
/// connection.
#[derive(Default)]
struct UnauthenticatedConnections([BTreeMap<u64, Arc<Notify>>; STAGES]);

impl UnauthenticatedConnections {
    fn len(&self) -> usize {
        self.0.iter().map(BTreeMap::len).sum()
    }

    fn connections_at(&mut self, stage: Stage) -> &mut BTreeMap<u64, Arc<Notify>> {
        let [silent, greeted, secured] = &mut self.0;
        match stage {
            Stage::Silent => silent,
            Stage::Greeted => greeted,
            Stage::Secured => secured,
        }
    }

    /// Removes the oldest connection of the stage with most connections; of equal stages, of the earlier one.
    fn pop_oldest(&mut self) -> Option<Arc<Notify>> {
        let largest = self.0.iter_mut().rev().max_by_key(|connections| connections.len())?;
        largest.pop_first().map(|(_, signal)| signal)
    }
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

/// Where an unauthenticated connection is counted.
#[derive(Clone, Copy)]
struct UnauthenticatedSlot {
    network: Network,
    number: u64,
    stage: Stage,
}

/// The slot of one connection, released on drop.
pub(crate) struct Admitted {
    limits: Arc<ConnectionLimits>,
    slot: Mutex<Option<UnauthenticatedSlot>>,
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
        let slot = unauthenticated.add(network, Arc::clone(&signal));
        self.all.fetch_add(1, Ordering::Relaxed);
        Some(Admitted { limits: Arc::clone(self), slot: Mutex::new(Some(slot)), signal })
    }

    fn unauthenticated(&self) -> MutexGuard<'_, Unauthenticated> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unauthenticated {
    fn of(&self, network: Network) -> usize {
        self.by_network.get(&network).map_or(0, UnauthenticatedConnections::len)
    }

    fn add(&mut self, network: Network, signal: Arc<Notify>) -> UnauthenticatedSlot {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let stage = Stage::Silent;
        self.by_network.entry(network).or_default().connections_at(stage).insert(number, signal);
        self.count = self.count.saturating_add(1);
        UnauthenticatedSlot { network, number, stage }
    }

    /// Removes a connection; `None` if it was evicted.
    fn remove(&mut self, slot: UnauthenticatedSlot) -> Option<Arc<Notify>> {
        let connections = self.by_network.get_mut(&slot.network)?;
        let removed = connections.connections_at(slot.stage).remove(&slot.number);
        self.release_connection(slot.network, removed)
    }

    fn evict_oldest(&mut self, network: Network) {
        let Some(connections) = self.by_network.get_mut(&network) else { return };
        let oldest = connections.pop_oldest();
        if let Some(evicted) = self.release_connection(network, oldest) {
            evicted.notify_one();
        }
    }

    fn release_connection(&mut self, network: Network, removed: Option<Arc<Notify>>) -> Option<Arc<Notify>> {
        if removed.is_some() {
            self.count = self.count.saturating_sub(1);
        }
        if self.of(network) == 0 {
            self.by_network.remove(&network);
        }
        removed
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
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(slot) = slot {
            self.limits.unauthenticated().remove(slot);
        }
    }

    /// Records how far the connection is.
    pub(crate) fn reached(&self, stage: Stage) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = slot.as_mut() else { return };
        let mut unauthenticated = self.limits.unauthenticated();
        let Some(connections) = unauthenticated.by_network.get_mut(&slot.network) else { return };
        if let Some(signal) = connections.connections_at(slot.stage).remove(&slot.number) {
            connections.connections_at(stage).insert(slot.number, signal);
            slot.stage = stage;
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
        let slot = limits.admit(other).unwrap();
        let known = limits.admit(flood).unwrap();
        known.authenticated();
        // Open four connections from one address; the fifth and the sixth evict the first two.
        let flood: Vec<Admitted> = (0..6).map(|_| limits.admit(flood).unwrap()).collect();
        let evicted: Vec<bool> = flood.iter().map(is_evicted).collect();
        assert_eq!(evicted, [true, true, false, false, false, false]);
        assert!(!is_evicted(&known) && !is_evicted(&slot));
        assert_eq!(limits.unauthenticated().count, 5);
        drop((flood, slot, known));
        assert_eq!((limits.unauthenticated().count, limits.all.load(Ordering::Relaxed)), (0, 0));
        assert!(limits.unauthenticated().by_network.is_empty());
    }

    #[test]
    fn a_flood_at_one_stage_does_not_cost_those_at_another() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for (flood, honest) in [(Stage::Silent, Stage::Greeted), (Stage::Secured, Stage::Silent)] {
            let limits = Arc::new(ConnectionLimits::new(64));
            let waits = limits.admit(address).unwrap();
            waits.reached(honest);
            let flood: Vec<Admitted> = (0..40)
                .map(|_| {
                    let admitted = limits.admit(address).unwrap();
                    admitted.reached(flood);
                    admitted
                })
                .collect();
            assert!(!is_evicted(&waits), "{honest:?}");
            assert_eq!(flood.iter().filter(|admitted| is_evicted(admitted)).count(), 25);
            // An evicted connection is not counted again when it reaches the next stage.
            flood.iter().for_each(|admitted| admitted.reached(Stage::Secured));
            assert_eq!(limits.unauthenticated().count, 16);
            drop((flood, waits));
            assert!(limits.unauthenticated().by_network.is_empty() && limits.unauthenticated().count == 0);
        }
    }

    #[test]
    fn there_are_never_more_than_all() {
        let limits = Arc::new(ConnectionLimits::new(4));
        let address = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, last, 0, 0, 0, last));
        let known: Vec<Admitted> = (0..3).map(|last| limits.admit(address(last)).unwrap()).collect();
        known.iter().for_each(Admitted::authenticated);
        let slot = limits.admit(address(9)).unwrap();
        assert!(limits.admit(address(8)).is_none());
        assert!(is_evicted(&slot), "the next one finds room");
        drop(slot);
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
