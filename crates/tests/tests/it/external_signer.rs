//! Service account tokens that an external process signs: a small signer on a unix socket.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_grpc::protobuf::{Field, Fields, put_bytes, put_number, text};
use pintle_testkit::{Answer, Client, GrpcAnswer, GrpcServer, Options, Request, Server};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";
const ISSUER: &str = "https://tokens.example.com";

/// A key of the signer.
struct SignerKey {
    kid: String,
    pair: EcdsaKeyPair,
    excluded: bool,
}

impl SignerKey {
    fn new(kid: &str, excluded: bool) -> SignerKey {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        SignerKey { kid: kid.into(), pair, excluded }
    }
}

/// The state of the signer; a test changes it while the server runs.
struct Signer {
    keys: Vec<SignerKey>,
    /// The key of the next signature.
    signs_with: String,
    seconds_max: u64,
    /// How often the keys were fetched.
    fetches: usize,
    fails: bool,
}

impl Signer {
    fn answer(&mut self, method: &str, message: &[u8]) -> GrpcAnswer {
        if self.fails {
            return Err((7, "no signatures today".to_string()));
        }
        let mut out = Vec::new();
        match method {
            "/v1.ExternalJWTSigner/Metadata" => put_number(1, self.seconds_max, &mut out),
            "/v1.ExternalJWTSigner/FetchKeys" => {
                self.fetches += 1;
                for key in &self.keys {
                    let spki: PublicKeyX509Der<'_> = key.pair.public_key().as_der().unwrap();
                    let mut entry = Vec::new();
                    put_bytes(1, key.kid.as_bytes(), &mut entry);
                    put_bytes(2, spki.as_ref(), &mut entry);
                    put_number(3, key.excluded.into(), &mut entry);
                    put_bytes(1, &entry, &mut out);
                }
                let mut time = Vec::new();
                put_number(1, 1_700_000_000, &mut time);
                put_bytes(2, &time, &mut out);
                put_number(3, 1000, &mut out);
            }
            "/v1.ExternalJWTSigner/Sign" => {
                let mut claims = String::new();
                for field in Fields(message) {
                    if let (1, Field::Bytes(bytes)) = field.unwrap() {
                        claims = text(bytes);
                    }
                }
                let key = self.keys.iter().find(|key| key.kid == self.signs_with).unwrap();
                let header = json!({"alg": "ES256", "kid": key.kid, "typ": "JWT"});
                let header = URL_SAFE_NO_PAD.encode(header.to_string());
                let signed = format!("{header}.{claims}");
                let signature = key.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
                put_bytes(1, header.as_bytes(), &mut out);
                put_bytes(2, URL_SAFE_NO_PAD.encode(signature).as_bytes(), &mut out);
            }
            _ => return Err((12, format!("unknown method {method}"))),
        }
        Ok(out)
    }
}

fn start_signer(name: &str) -> (GrpcServer, Arc<Mutex<Signer>>, PathBuf) {
    let signer = Arc::new(Mutex::new(Signer {
        keys: vec![SignerKey::new("new", false), SignerKey::new("legacy", true)],
        signs_with: "new".into(),
        seconds_max: 7200,
        fetches: 0,
        fails: false,
    }));
    let path = std::env::temp_dir().join(format!("pintle-signer-{name}-{}.sock", std::process::id()));
    let answers = signer.clone();
    let answer = move |method: &str, message: Vec<u8>| answers.lock().unwrap().answer(method, &message);
    (GrpcServer::start(&path, answer).unwrap(), signer, path)
}

fn options(path: &std::path::Path) -> Options {
    let flags = [
        format!("--service-account-signing-endpoint={}", path.display()),
        format!("--service-account-issuer={ISSUER}"),
    ];
    Options { ephemeral: true, flags: flags.to_vec() }
}

fn header(answer: &Answer, name: &str) -> String {
    let found = answer.head.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

async fn token(admin: &Client, seconds: u64) -> (u16, Value) {
    admin.post(TOKEN, &json!({"spec": {"expirationSeconds": seconds}})).await.unwrap()
}

async fn name_of(admin: &Client, token: &str) -> (u16, String) {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, answer) = admin.as_token(Some(token)).post(path, &review).await.unwrap();
    (code, answer["status"]["userInfo"]["username"].as_str().unwrap_or("").to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_signs_tokens() {
    let (_grpc, signer, path) = start_signer("signs");
    let server = Server::start_with(options(&path)).await.unwrap();
    let admin = server.admin().unwrap();
    // With kube-apiserver's flags, another process creates the accounts.
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    assert_eq!(admin.post("/api/v1/namespaces/default/serviceaccounts", &robot).await.unwrap().0, 201);
    let account = (201, "system:serviceaccount:default:robot".to_string());

    let (code, made) = token(&admin, 7200).await;
    assert_eq!(code, 201, "{made}");
    let first = made["status"]["token"].as_str().unwrap().to_string();
    assert_eq!(name_of(&admin, &first).await, account);

    // The signer limits the lifetime of tokens.
    let request = Request::new("POST", TOKEN).json(&json!({"spec": {"expirationSeconds": 9000}}));
    let answer = admin.send(&request).await.unwrap();
    assert_eq!(answer.json().unwrap()["spec"]["expirationSeconds"], 7200);
    let warning = header(&answer, "warning");
    assert!(warning.contains("requested expiration of 9000 seconds shortened to 7200 seconds"), "{warning}");

    // Published keys do not include those that only verify.
    let keys = admin.send(&Request::new("GET", "/openid/v1/jwks")).await.unwrap();
    let kids: Vec<Value> =
        keys.json().unwrap()["keys"].as_array().unwrap().iter().map(|k| k["kid"].clone()).collect();
    assert_eq!(kids, ["new"]);
    let caching = header(&keys, "cache-control");
    let age: u64 = caching.strip_prefix("public, max-age=").unwrap().parse().unwrap();
    assert!(age <= 1000, "{age}");

    // A key that is not published may verify but not sign.
    signer.lock().unwrap().signs_with = "legacy".into();
    let (code, refused) = token(&admin, 3600).await;
    assert_eq!(code, 500, "{refused}");
    let expected = "Internal error occurred: failed to generate token: while validating header: key used for signing JWT \
                    (kid: legacy) is excluded from OIDC discovery docs";
    assert_eq!(refused["message"], expected);

    // An unknown key is fetched once for a token that names it; then it is published too.
    signer.lock().unwrap().keys.push(SignerKey::new("newest", false));
    signer.lock().unwrap().signs_with = "newest".into();
    let before = signer.lock().unwrap().fetches;
    let (code, made) = token(&admin, 3600).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(name_of(&admin, made["status"]["token"].as_str().unwrap()).await, account);
    assert_eq!(signer.lock().unwrap().fetches, before + 1);
    let keys = admin.send(&Request::new("GET", "/openid/v1/jwks")).await.unwrap();
    assert_eq!(keys.json().unwrap()["keys"].as_array().unwrap().len(), 2);

    // A removed key verifies nothing any more, although its tokens were accepted before.
    signer.lock().unwrap().keys.retain(|key| key.kid != "new");
    signer.lock().unwrap().keys.push(SignerKey::new("last", false));
    signer.lock().unwrap().signs_with = "last".into();
    assert_eq!(token(&admin, 3600).await.0, 201);
    assert_eq!(name_of(&admin, &first).await.0, 401);

    // A failing signer only fails the request.
    signer.lock().unwrap().fails = true;
    let (code, refused) = token(&admin, 3600).await;
    assert_eq!(code, 500);
    let expected = "Internal error occurred: failed to generate token: while signing jwt: rpc error: code = \
                    PermissionDenied desc = no signatures today";
    assert_eq!(refused["message"], expected);
    let metrics = admin.send(&Request::new("GET", "/metrics")).await.unwrap().text();
    for line in [
        "apiserver_externaljwt_sign_request_total{code=\"PermissionDenied\"} 1",
        "apiserver_externaljwt_sign_request_total{code=\"unknown-non-grpc\"} 1",
        "apiserver_externaljwt_fetch_keys_data_timestamp 1.7e+09",
        "apiserver_externaljwt_request_duration_seconds_count{code=\"OK\",method=\"/v1.ExternalJWTSigner/Metadata\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_that_allows_too_short_tokens_is_refused() {
    let (_grpc, signer, path) = start_signer("short");
    signer.lock().unwrap().seconds_max = 599;
    let error = Server::start_with(options(&path)).await.err().map(|error| error.to_string());
    let expected =
        "max token life supported by external-jwt-signer (599s) is less than acceptable (min 600s)";
    assert!(error.as_ref().is_some_and(|error| error.contains(expected)), "{error:?}");
}
