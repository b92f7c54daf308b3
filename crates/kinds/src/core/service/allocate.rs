//! Allocates addresses and node ports for a Service. Allocated values, the random source and ranges are inputs, and
//! nothing is stored here: the caller stores the service with its allocations.

use super::addresses::{
    default_ip_families, family_of, needs_health_check_port, needs_node_ports, node_ports,
    prefers_dual_as_before,
};
use super::{is_headless, kind, number, texts};
use pintle_meta::FieldErrors;
use pintle_meta::field::quoted;
use pintle_meta::net::{self, Cidr};
use pintle_value::{Path, Str, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

mod network;
pub use network::{ServiceNetwork, networks};

/// How many values are tried before a range counts as exhausted.
const PROBES_MAX: u128 = 1 << 17;
/// A dry run makes up ports above this one.
const DRY_RUN_PORT: i64 = 32768;
const FULL: &str = "range is full";
const PORT_TAKEN: &str = "provided port is already allocated";

/// The ranges of addresses and node ports of the server's flags.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// The default networks, at most one per family, the default family first.
    pub networks: Vec<Cidr>,
    /// Node ports.
    pub node_ports: RangeInclusive<i64>,
}

/// The inputs of one allocation.
pub struct Pool<'a> {
    /// The families and the node ports of services.
    pub ranges: &'a Ranges,
    /// The networks that addresses are allocated from.
    pub networks: &'a [ServiceNetwork],
    /// Nothing will be stored; the values are only returned.
    pub dry_run: bool,
    /// Returns whether a service has the address.
    pub ip_taken: &'a dyn Fn(IpAddr) -> bool,
    /// Returns whether a service has the node port.
    pub port_taken: &'a dyn Fn(i64) -> bool,
    /// The random source.
    pub random: &'a mut dyn FnMut() -> u64,
}

/// The reason why the allocation for a service failed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A requested value is not available.
    #[error("the service is invalid")]
    Invalid(FieldErrors),
    /// The range is exhausted; the text is that of an internal error.
    #[error("{0}")]
    Internal(String),
    /// Two ports have the same node port; the text is the whole message.
    #[error("{0}")]
    Duplicate(String),
}

/// Decides the families and allocates what is missing. `object` has been prepared but not validated.
pub fn allocate(object: &mut Value, old: Option<&Value>, pool: &mut Pool<'_>) -> Result<(), Refusal> {
    let families: Vec<&str> = pool.ranges.networks.iter().map(network::family).collect();
    default_ip_families(object, old, &families).map_err(Refusal::Invalid)?;
    match old {
        None => allocate_addresses(object, pool)?,
        Some(old) => update_addresses(object, old, pool)?,
    }
    let mut ports = Ports { pool, given: BTreeSet::new() };
    match old {
        None => allocate_ports(object, &mut ports)?,
        Some(old) => update_ports(object, old, &mut ports)?,
    }
    let needed_before = old.is_some_and(needs_health_check_port);
    if needs_health_check_port(object) && !needed_before {
        allocate_health_check_port(object, &mut ports)?;
    }
    Ok(())
}

fn refuse_value(path: &Path<'_>, error_text: impl pintle_meta::field::ErrorText, detail: &str) -> Refusal {
    let mut errors = FieldErrors::new();
    errors.invalid(path, error_text, detail);
    Refusal::Invalid(errors)
}

fn update_addresses(object: &mut Value, old: &Value, pool: &mut Pool<'_>) -> Result<(), Refusal> {
    if prefers_dual_as_before(object, old) || kind(object) == "ExternalName" {
        return Ok(());
    }
    if kind(old) == "ExternalName" {
        return allocate_addresses(object, pool);
    }
    let grows = texts(old, "ipFamilies").len() == 1 && texts(object, "ipFamilies").len() == 2;
    if grows && texts(old, "clusterIPs").first() != Some(&"None") {
        let requested = requested_addresses(object, 2);
        allocate_address(object, 1, &requested, pool)?;
    }
    Ok(())
}

/// An address for each family.
fn allocate_addresses(object: &mut Value, pool: &mut Pool<'_>) -> Result<(), Refusal> {
    let headless = texts(object, "clusterIPs").first() == Some(&"None") || is_headless(object);
    if kind(object) == "ExternalName" || headless {
        return Ok(());
    }
    let families = texts(object, "ipFamilies").len();
    let requested = requested_addresses(object, families);
    for at in 0..families {
        allocate_address(object, at, &requested, pool)?;
    }
    Ok(())
}

/// The requested addresses with an empty one for each family that has none. Errors show them, whatever was already
/// allocated.
fn requested_addresses(object: &Value, families: usize) -> Vec<Str> {
    let mut ips: Vec<Str> = texts(object, "clusterIPs").into_iter().map(Str::from).collect();
    ips.resize(ips.len().max(families), Str::default());
    ips
}

/// Allocates the address at an index of `clusterIPs`: the requested one, or any.
fn allocate_address(
    object: &mut Value,
    at: usize,
    requested: &[Str],
    pool: &mut Pool<'_>,
) -> Result<(), Refusal> {
    let mut ips = requested_addresses(object, at.saturating_add(1));
    let family = texts(object, "ipFamilies").get(at).copied().unwrap_or("");
    let name = object.str_at(&["metadata", "name"]);
    let wanted = ips.get(at).cloned().unwrap_or_default();
    let given = if wanted.is_empty() {
        let next = next_address(family, pool);
        let message = || format!("failed to allocate a serviceIP for Service {}: {FULL}", quoted(name));
        Str::from(next.ok_or_else(|| Refusal::Internal(message()))?)
    } else {
        take_address(&wanted, family, pool).map_err(|why| {
            let detail = format!("failed to allocate IP {wanted}: {why}");
            refuse_value(&Path::of("spec.clusterIPs"), requested, &detail)
        })?;
        wanted
    };
    if at == 0 {
        object.set_at(&["spec", "clusterIP"], given.clone().into());
    }
    if let Some(place) = ips.get_mut(at) {
        *place = given;
    }
    object.set_at(&["spec", "clusterIPs"], Value::Array(ips.into_iter().map(Value::from).collect()));
    Ok(())
}

fn take_address(text: &str, family: &str, pool: &Pool<'_>) -> Result<(), String> {
    const NO_NETWORK: &str = "the provided network does not match the current range";
    let address = net::parse_ip_sloppy(text).map(|address| address.to_canonical()).ok_or(NO_NETWORK)?;
    let mut ready = pool.networks.iter().filter(|network| network.ready && network.family() == family);
    if !ready.clone().any(|network| network.has(address)) {
        let Some(first) = ready.next().filter(|_| pool.dry_run) else { return Err(NO_NETWORK.to_string()) };
        let range = first.cidr.network_text();
        return Err(format!(
            "the provided IP ({text}) is not in the valid range. The range of valid IPs is {range}"
        ));
    }
    if !pool.dry_run && (pool.ip_taken)(address) {
        return Err("provided IP is already allocated".to_string());
    }
    Ok(())
}

/// Allocates any free address of a network that is ready, beginning with any of them.
fn next_address(family: &str, pool: &mut Pool<'_>) -> Option<String> {
    let ready = pool.networks.iter().filter(|network| network.ready && network.family() == family);
    let mut ready: Vec<&ServiceNetwork> = ready.collect();
    if pool.dry_run {
        return ready.first().map(|network| net::ip_text(network.cidr.network()));
    }
    if ready.len() > 1 {
        let any = (pool.random)().checked_rem(u64::try_from(ready.len()).ok()?)?;
        ready.rotate_left(usize::try_from(any).ok()?);
    }
    ready.into_iter().find_map(|network| network.free_address(pool)).map(net::ip_text)
}

/// The size of the part of a range that is reserved for requested values.
fn reserved(size: u128, step: u128, max: u128) -> u128 {
    const MIN: u128 = 16;
    if size <= MIN { 0 } else { size.checked_div(step).unwrap_or(0).clamp(MIN, max) }
}

/// The first free value from a random start, wrapping around once.
fn probe(first: u128, last: u128, random: u64, free: &dyn Fn(u128) -> bool) -> Option<u128> {
    let size = last.checked_sub(first)?.saturating_add(1);
    let start = u128::from(random).checked_rem(size)?;
    (0..size.min(PROBES_MAX))
        .map(|step| first.saturating_add(start.saturating_add(step).checked_rem(size).unwrap_or(0)))
        .find(|at| free(*at))
}

/// Node ports, including those of this allocation.
struct Ports<'p, 'a> {
    pool: &'p mut Pool<'a>,
    given: BTreeSet<i64>,
}

impl Ports<'_, '_> {
    fn take(&mut self, port: i64) -> Result<(), String> {
        let range = &self.pool.ranges.node_ports;
        if !self.pool.dry_run && !range.contains(&port) {
            let valid = format!("{}-{}", range.start(), range.end());
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {valid}"
            ));
        }
        if (self.pool.port_taken)(port) || self.given.contains(&port) {
            return Err(PORT_TAKEN.to_string());
        }
        self.given.insert(port);
        Ok(())
    }

    fn next(&mut self) -> Option<i64> {
        let port = if self.pool.dry_run { self.next_dry_run_port() } else { self.find()? };
        self.given.insert(port);
        Some(port)
    }

    fn next_dry_run_port(&self) -> i64 {
        self.given.last().copied().unwrap_or(DRY_RUN_PORT).saturating_add(1)
    }

    fn find(&mut self) -> Option<i64> {
        let (first, last) = (*self.pool.ranges.node_ports.start(), *self.pool.ranges.node_ports.end());
        let (first, last) = (u128::try_from(first).ok()?, u128::try_from(last).ok()?);
        let reserved = reserved(last.checked_sub(first)?.saturating_add(1), 32, 128);
        let (high, low) = ((self.pool.random)(), (self.pool.random)());
        let free = |port: u128| {
            i64::try_from(port).is_ok_and(|port| !(self.pool.port_taken)(port) && !self.given.contains(&port))
        };
        let found = probe(first.saturating_add(reserved), last, high, &free);
        let found =
            found.or_else(|| probe(first, first.saturating_add(reserved.checked_sub(1)?), low, &free))?;
        i64::try_from(found).ok()
    }
}

fn no_free_port() -> Refusal {
    Refusal::Internal(format!("failed to allocate a nodePort: {FULL}"))
}

fn take_port(at: usize, port: i64, ports: &mut Ports<'_, '_>) -> Result<(), Refusal> {
    let list = Path::of("spec.ports");
    ports.take(port).map_err(|why| refuse_value(&list.index(at).field("nodePort"), port, &why))
}

fn set_port(object: &mut Value, at: usize, port: i64) {
    if let Some(item) =
        object.at_mut(&["spec", "ports"]).and_then(Value::as_array_mut).and_then(|p| p.get_mut(at))
    {
        item.set_at(&["nodePort"], port.into());
    }
}

fn uses_node_ports(object: &Value) -> bool {
    matches!(kind(object), "NodePort" | "LoadBalancer")
}

/// Allocates the node ports of a new service. Ports with the same number (TCP and UDP) share one.
fn allocate_ports(object: &mut Value, ports: &mut Ports<'_, '_>) -> Result<(), Refusal> {
    if !uses_node_ports(object) {
        return Ok(());
    }
    let listed: Vec<(i64, i64)> = object
        .items_at(&["spec", "ports"])
        .iter()
        .map(|p| (number(p, &["port"]), number(p, &["nodePort"])))
        .collect();
    // The first node port that is requested for each port.
    let mut requests: HashMap<i64, i64> = HashMap::new();
    for (port, node) in listed.iter().filter(|(_, node)| *node != 0) {
        requests.entry(*port).or_insert(*node);
    }
    let mut shared: HashMap<i64, i64> = HashMap::new();
    for (at, (port, wanted)) in listed.iter().copied().enumerate() {
        if wanted == 0 && !needs_node_ports(object) {
            continue;
        }
        match shared.get(&port).copied() {
            Some(given) if wanted == 0 => set_port(object, at, given),
            Some(given) if wanted == given => {}
            Some(_) => take_port(at, wanted, ports)?,
            None => {
                let given = match requests.get(&port).copied() {
                    Some(requested) => {
                        take_port(at, requested, ports)?;
                        requested
                    }
                    None => ports.next().ok_or_else(no_free_port)?,
                };
                set_port(object, at, given);
                shared.insert(port, given);
            }
        }
    }
    Ok(())
}

/// Allocates the node ports of a changed service, which keeps those it had.
fn update_ports(object: &mut Value, old: &Value, ports: &mut Ports<'_, '_>) -> Result<(), Refusal> {
    if !uses_node_ports(object) {
        return Ok(());
    }
    let before: HashSet<i64> = node_ports(old).into_iter().collect();
    let (mut seen, mut seen_ports) = (HashSet::new(), HashSet::new());
    for at in 0..object.items_at(&["spec", "ports"]).len() {
        let Some(item) = object.items_at(&["spec", "ports"]).get(at) else { continue };
        let (protocol, mut port) = (Str::from(item.str_at(&["protocol"])), number(item, &["nodePort"]));
        if port == 0 && !needs_node_ports(object) {
            continue;
        }
        if port == 0 {
            port = ports.next().ok_or_else(no_free_port)?;
            set_port(object, at, port);
        } else if !before.contains(&port) && !seen_ports.contains(&port) {
            take_port(at, port, ports)?;
        }
        if !seen.insert((protocol.clone(), port)) {
            return Err(Refusal::Duplicate(format!("duplicate nodePort: {{{protocol} {port}}}")));
        }
        seen_ports.insert(port);
    }
    Ok(())
}

fn allocate_health_check_port(object: &mut Value, ports: &mut Ports<'_, '_>) -> Result<(), Refusal> {
    let keys = ["spec", "healthCheckNodePort"];
    let wanted = number(object, &keys);
    if wanted != 0 {
        let message = |why| format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}");
        return ports.take(wanted).map_err(|why| Refusal::Internal(message(why)));
    }
    let message = || format!("failed to allocate a HealthCheck NodePort 0: {FULL}");
    let port = ports.next().ok_or_else(|| Refusal::Internal(message()))?;
    object.set_at(&keys, port.into());
    Ok(())
}

#[cfg(test)]
mod tests;
