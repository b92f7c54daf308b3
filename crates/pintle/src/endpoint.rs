//! Tells the cluster where this server is: the addresses behind the service `kubernetes`.

use crate::config::Config;
use crate::objects::{ObjectsError, target_of};
use pintle_engine::Engine;
use pintle_value::{Value, json};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Makes or corrects the Endpoints and the EndpointSlice of the service, unless the flags say that somebody else does.
pub(crate) async fn publish(
    engine: &Engine,
    config: &Config,
    listening: SocketAddr,
) -> Result<(), ObjectsError> {
    let Some(address) = config.advertise.filter(|_| config.publishes_endpoint) else { return Ok(()) };
    let (endpoints, slice) = (endpoints(address, listening.port()), slice(address, listening.port()));
    let made = tokio::try_join!(
        put(engine, endpoints, &["subsets"]),
        put(engine, slice, &["addressType", "endpoints", "ports"])
    );
    made.map(drop).map_err(|status| ObjectsError::Bootstrap(Box::new(status)))
}

/// The address that the cluster can reach: loopback is another machine for everybody else. Nothing is sent for this.
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

async fn put(engine: &Engine, object: Value, fields: &[&str]) -> Result<(), pintle_meta::Status> {
    let Some(target) = target_of(engine, &object) else { return Ok(()) };
    engine.ensure(&target, crate::bootstrap::manager(&target.kind.group), object.clone()).await?;
    let correct = |kept: &mut Value| {
        for field in fields {
            kept.set_at(&[field], object.get(field).cloned().unwrap_or(Value::Null));
        }
    };
    engine.mutate(&target, None, correct).await
}

fn endpoints(address: IpAddr, port: u16) -> Value {
    tree(&format!(
        r#"{{"kind":"Endpoints","apiVersion":"v1",
        "metadata":{{"name":"kubernetes","namespace":"default","labels":{{"endpointslice.kubernetes.io/skip-mirror":"true"}}}},
        "subsets":[{{"addresses":[{{"ip":"{address}"}}],"ports":[{{"name":"https","port":{port},"protocol":"TCP"}}]}}]}}"#
    ))
}

fn slice(address: IpAddr, port: u16) -> Value {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    tree(&format!(
        r#"{{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1",
        "metadata":{{"name":"kubernetes","namespace":"default","labels":{{"kubernetes.io/service-name":"kubernetes"}}}},
        "addressType":"{family}","endpoints":[{{"addresses":["{address}"],"conditions":{{"ready":true}}}}],
        "ports":[{{"name":"https","port":{port},"protocol":"TCP"}}]}}"#
    ))
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).map_or(Value::Null, |parsed| parsed.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_can_reach_is_told_as_it_is() {
        for text in ["192.0.2.7", "2001:db8::7"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(host_address(address), Some(address));
            assert_eq!(endpoints(address, 6443).items_at(&["subsets"]).len(), 1);
            assert_eq!(slice(address, 6443).items_at(&["endpoints"]).len(), 1);
        }
        assert!(host_address("127.0.0.1".parse().unwrap()).is_none_or(|found| !found.is_loopback()));
    }
}
