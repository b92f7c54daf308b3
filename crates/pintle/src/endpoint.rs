//! The address at which the cluster reaches this server.

use std::net::{IpAddr, UdpSocket};

/// An address of this host that the cluster can reach, so not loopback. Nothing is sent to find it.
pub(crate) fn host_address(listening: IpAddr) -> Option<IpAddr> {
    if !listening.is_loopback() && !listening.is_unspecified() {
        return Some(listening);
    }
    let any = if listening.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let elsewhere = if listening.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(elsewhere).ok()?;
    let address = socket.local_addr().ok()?.ip();
    Some(address).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_can_reach_is_told_as_it_is() {
        for text in ["192.0.2.7", "2001:db8::7"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(host_address(address), Some(address));
        }
        assert!(host_address("127.0.0.1".parse().unwrap()).is_none_or(|found| !found.is_loopback()));
    }
}
