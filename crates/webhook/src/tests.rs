#![allow(clippy::unwrap_used, reason = "a check fails where it unwraps")]
//! Errors with the messages of kube-apiserver's client; successful calls are tested with a server.

use super::*;
use crate::route::split_port;

struct Nowhere;

impl Services for Nowhere {
    fn locate(&self, _namespace: &str, name: &str, _port: u16) -> Result<(String, u16), String> {
        match name {
            "closed" => Ok(("127.0.0.1".to_string(), 1)),
            name => Err(format!("service \"{name}\" not found")),
        }
    }
}

fn certificate() -> Vec<u8> {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    params.self_signed(&key).unwrap().pem().into_bytes()
}

async fn call(place: Place, ca_bundle: Vec<u8>) -> String {
    let client = Client::default();
    let endpoint = Endpoint { place, ca_bundle };
    let answer = client.call(&Nowhere, &endpoint, Bytes::new(), Duration::from_secs(10).into()).await;
    answer.unwrap_err().to_string()
}

fn service(name: &str) -> Place {
    Place::Service { namespace: "ns".into(), name: name.into(), path: "/convert".into(), port: 443 }
}

#[tokio::test]
async fn connection_errors_have_the_texts_of_go() {
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    for (place, expected) in [
        (
            Place::Url("https://127.0.0.1:1".into()),
            format!("Post \"https://127.0.0.1:1/?timeout=10s\": {refused}"),
        ),
        (
            Place::Url("https://127.0.0.1:1/a/b".into()),
            format!("Post \"https://127.0.0.1:1/a/b?timeout=10s\": {refused}"),
        ),
        (service("closed"), format!("Post \"https://closed.ns.svc:443/convert?timeout=10s\": {refused}")),
        (
            service("none"),
            "Post \"https://none.ns.svc:443/convert?timeout=10s\": service \"none\" not found".to_string(),
        ),
    ] {
        assert_eq!(call(place, certificate()).await, expected);
    }
    let broken = call(Place::Url("https://127.0.0.1:1".into()), b"no certificate".to_vec()).await;
    assert_eq!(broken, "unable to load root certificates: unable to parse bytes as PEM block");
}

#[test]
fn unsuccessful_answers_become_errors() {
    let boom =
        |said: &str| format!("an error on the server (\"{said}\") has prevented the request from succeeding");
    for (code, kind, answer, expected) in [
        (404, "", "", "the server could not find the requested resource".to_string()),
        (500, "text/plain; charset=utf-8", "boom\n", boom("boom")),
        (500, "application/json", "{}", boom("unknown")),
        (503, JSON, r#"{"kind":"Status","status":"Failure","message":"later"}"#, "later".to_string()),
    ] {
        assert_eq!(refusal(code, &Method::POST, kind, answer.as_bytes()).message, expected);
    }
}

#[test]
fn places_that_answers_name_are_found() {
    let endpoint = Endpoint { place: Place::Url("https://a:1/b//c/./d/../".into()), ca_bundle: Vec::new() };
    let route = Route::new(&endpoint, 3);
    assert_eq!(route.url(), "https://a:1/b/c?timeout=3s");
    assert_eq!(route.moved("/x?y").url(), "https://a:1/x?y");
    assert_eq!(route.moved("https://b/x").url(), "https://b/x");
}

#[test]
fn authorities_are_taken_apart() {
    for (authority, host, port) in
        [("a.b", "a.b", 443), ("a.b:8443", "a.b", 8443), ("[::1]:9", "::1", 9), ("[::1]", "::1", 443)]
    {
        assert_eq!(split_port(authority), (host.to_string(), port));
    }
}
