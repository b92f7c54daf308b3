//! The network and the node ports of services, from their flags.

use super::non_empty;
use crate::flags::{FlagError, Flags};
use pintle_kinds::service_allocation::Ranges;
use pintle_meta::net;
use std::net::IpAddr;

/// The default service CIDR.
const DEFAULT_SERVICE_NETWORK: &str = "10.0.0.0/24";

/// A network: address and length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

impl Network {
    /// The first address after the network address, which the service `kubernetes` has.
    pub(crate) fn first_host(self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(self.prefix))).unwrap_or(0);
                IpAddr::V4(((v4.to_bits() & mask).wrapping_add(1)).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(self.prefix))).unwrap_or(0);
                IpAddr::V6(((v6.to_bits() & mask).wrapping_add(1)).into())
            }
        }
    }
}

/// The first network of services.
pub(super) fn service_network(flags: &Flags) -> Result<Network, FlagError> {
    let all = non_empty(flags.list("service-cluster-ip-range"), DEFAULT_SERVICE_NETWORK);
    let first = all.first().map_or("", String::as_str);
    let bad = || FlagError::new("service-cluster-ip-range[0] is not a valid cidr");
    let (address, prefix) = first.split_once('/').ok_or_else(bad)?;
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let prefix: u8 = prefix.parse().map_err(|_| bad())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if prefix > longest { Err(bad()) } else { Ok(Network { address, prefix }) }
}

/// A service network has at least this many bits for hosts, so that there are addresses besides the server's own.
const SERVICE_BITS_MIN: u8 = 3;

/// A range of ports: `first-last`, `first+more` or one port.
pub(crate) fn node_ports(given: &str) -> Result<(i64, i64), FlagError> {
    let text = given.trim();
    let refused = |why: String| {
        FlagError::new(&format!("invalid argument {given:?} for \"--service-node-port-range\" flag: {why}"))
    };
    let number = |text: &str| {
        text.parse::<i64>().map_err(|_| refused(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
    };
    let (first, last) = match (text.split_once('-'), text.split_once('+')) {
        (Some(_), Some(_)) => return Err(refused(format!("unable to parse port range: {text}"))),
        (Some((first, last)), None) => (number(first)?, number(last)?),
        (None, Some((first, more))) => {
            let first = number(first)?;
            (first, first.saturating_add(number(more)?))
        }
        (None, None) => (number(text)?, number(text)?),
    };
    if first > 65535 || last > 65535 {
        return Err(refused(format!("the port range cannot be greater than 65535: {text}")));
    }
    if last < first {
        return Err(refused(format!("end port cannot be less than start port: {text}")));
    }
    Ok((first.max(1), last))
}

/// The networks of service addresses. Of more than two, the first two are read.
pub(crate) fn service_networks(flags: &Flags) -> Result<Vec<net::Cidr>, FlagError> {
    let mut networks: Vec<net::Cidr> = Vec::new();
    for (at, text) in service_network_texts(flags).iter().take(2).enumerate() {
        let what = if at == 0 { "a valid cidr" } else { "an ip net" };
        let bad = || FlagError::new(&format!("service-cluster-ip-range[{at}] is not {what}"));
        let network = net::parse_cidr_sloppy(text).ok_or_else(bad)?;
        if at == 0 {
            check_size(&network, "primary")?;
        }
        networks.push(network);
    }
    Ok(networks)
}

/// Errors of several networks.
pub(crate) fn service_network_errors(flags: &Flags) -> Vec<String> {
    let mut errors = Vec::new();
    if service_network_texts(flags).len() > 2 {
        errors.push("--service-cluster-ip-range must not contain more than two entries".to_string());
    }
    if let Ok([first, second]) = service_networks(flags).as_deref()
        && first.address.is_ipv4() == second.address.is_ipv4()
    {
        let why =
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family";
        errors.push(why.to_string());
    }
    errors
}

fn service_network_texts(flags: &Flags) -> Vec<String> {
    non_empty(flags.raw_list("service-cluster-ip-range"), DEFAULT_SERVICE_NETWORK)
}

fn check_size(network: &net::Cidr, which: &str) -> Result<(), FlagError> {
    let bits: u8 = if network.address.is_ipv4() { 32 } else { 128 };
    if bits.saturating_sub(network.bits) < SERVICE_BITS_MIN {
        return Err(FlagError::new(&format!(
            "error determining service IP ranges for {which} service cidr: the service cluster IP range must be at \
             least 8 IP addresses"
        )));
    }
    Ok(())
}

/// The addresses and ports of services. `flag_checks` refuses more than two networks.
pub(super) fn service_ranges(flags: &Flags) -> Result<Ranges, FlagError> {
    let networks = service_networks(flags)?;
    if let Some(second) = networks.get(1) {
        check_size(second, "secondary")?;
    }
    let (first, last) = node_ports(flags.text("service-node-port-range"))?;
    Ok(Ranges { networks, node_ports: first..=last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_service_address_follows_that_of_the_network() {
        for (address, prefix, want) in
            [("10.0.0.0", 24, "10.0.0.1"), ("10.96.7.9", 12, "10.96.0.1"), ("fd00::", 108, "fd00::1")]
        {
            let network = Network { address: address.parse().unwrap(), prefix };
            assert_eq!(network.first_host().to_string(), want);
        }
    }
}
