#![allow(clippy::unwrap_used, reason = "a check fails where it unwraps")]
//! Errors in the words of kube-apiserver's client; calls that succeed are tested with a server.

use super::*;

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
    let answer = client.call(&Nowhere, &endpoint, Bytes::new(), Duration::from_secs(10)).await;
    answer.unwrap_err().to_string()
}

fn service(name: &str) -> Place {
    Place::Service { namespace: "ns".into(), name: name.into(), path: "/convert".into(), port: 443 }
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_as_go_does() {
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
    assert!(
        broken.ends_with("unable to load root certificates: unable to parse bytes as PEM block"),
        "{broken}"
    );
}

#[test]
fn answers_that_are_no_success_are_put_in_words() {
    let on_server =
        |said: &str| format!("an error on the server (\"{said}\") has prevented the request from succeeding");
    for (code, content_type, body, expected) in [
        (404, "", "", "the server could not find the requested resource".to_string()),
        (500, "text/plain", "boom\n", on_server("boom")),
        (500, "", "boom", on_server("boom")),
        (500, "text/html; charset=utf-8", "", on_server("")),
        (500, "application/json", "{}", on_server("unknown")),
        (
            503,
            "application/json",
            r#"{"kind":"Status","status":"Failure","message":"later"}"#,
            "later".into(),
        ),
        (
            200,
            "text/plain",
            "",
            "0-length response with status code: 200 and content type: text/plain".into(),
        ),
    ] {
        let answer = Answered { code, content_type: content_type.into(), body: body.into() };
        assert_eq!(refusal(&answer), expected);
    }
}

#[test]
fn authorities_are_taken_apart() {
    for (authority, host, port) in
        [("a.b", "a.b", 443), ("a.b:8443", "a.b", 8443), ("[::1]:9", "::1", 9), ("[::1]", "::1", 443)]
    {
        assert_eq!(split_port(authority), (host.to_string(), port));
    }
}
