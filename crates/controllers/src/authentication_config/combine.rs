//! Merges what several servers publish in `extension-apiserver-authentication`: each adds to the existing data, so that
//! extension servers trust the certificates and headers of all of them.

use pintle_value::{Value, base64, json};
use x509_parser::pem::Pem;

const CLIENT_CA: &str = "client-ca-file";
const REQUEST_HEADER_CA: &str = "requestheader-client-ca-file";
/// Keys that hold JSON lists of strings.
const LISTS: [&str; 5] = [
    "requestheader-username-headers",
    "requestheader-uid-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
    "requestheader-allowed-names",
];
/// How long a certificate stays in the bundle after its expiry, to allow for clock skew.
const EXPIRED_LEEWAY_SECONDS: i64 = 5 * 60;
const PEM_LINE_CHARS: usize = 64;

/// Merges what this server requires into `existing`. Returns `None` if the existing data cannot be parsed;
/// kube-apiserver leaves the ConfigMap alone then.
pub(super) fn combine(
    existing: &Value,
    required: &[(&'static str, String)],
    now_seconds: i64,
) -> Option<Value> {
    let mut out = Value::object();
    let texts = |key: &str| {
        let own = required.iter().find(|(name, _)| *name == key).map_or("", |(_, text)| text.as_str());
        [existing.str_at(&[key]), own]
    };
    let client_ca = combine_certificates(texts(CLIENT_CA), now_seconds)?;
    if !client_ca.is_empty() {
        out.set_at(&[CLIENT_CA], client_ca.into());
    }
    let lists = LISTS.map(|key| combine_lists(texts(key)).map(|list| (key, list)));
    let request_header_ca = combine_certificates(texts(REQUEST_HEADER_CA), now_seconds)?;
    for list in lists {
        let (key, list) = list?;
        let is_optional = key == "requestheader-uid-headers" && list.as_array().is_some_and(|l| l.is_empty());
        if !request_header_ca.is_empty() && !is_optional {
            out.set_at(&[key], json::text(&list).into());
        }
    }
    if !request_header_ca.is_empty() {
        out.set_at(&[REQUEST_HEADER_CA], request_header_ca.into());
    }
    Some(out)
}

/// The union of JSON lists of strings, in the order of first occurrence.
fn combine_lists(lists: [&str; 2]) -> Option<Value> {
    let mut all: Vec<Value> = Vec::new();
    for text in lists.into_iter().filter(|text| !text.is_empty()) {
        let Value::Array(items) = json::parse(text.as_bytes()).ok()?.value else { return None };
        for item in items {
            item.as_str()?;
            if !all.contains(&item) {
                all.push(item);
            }
        }
    }
    Some(Value::Array(all))
}

/// The union of PEM bundles without expired certificates.
fn combine_certificates(bundles: [&str; 2], now_seconds: i64) -> Option<String> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for bundle in bundles.into_iter().filter(|bundle| !bundle.is_empty()) {
        let blocks: Vec<Pem> = Pem::iter_from_buffer(bundle.as_bytes()).collect::<Result<_, _>>().ok()?;
        if !blocks.iter().any(is_certificate) {
            return None;
        }
        for block in blocks.into_iter().filter(is_certificate) {
            let not_after = block.parse_x509().ok()?.validity().not_after.timestamp();
            let is_valid = not_after > now_seconds.saturating_sub(EXPIRED_LEEWAY_SECONDS);
            if is_valid && !all.contains(&block.contents) {
                all.push(block.contents);
            }
        }
    }
    Some(all.iter().map(|der| to_pem(der)).collect())
}

fn is_certificate(block: &Pem) -> bool {
    block.label == "CERTIFICATE"
}

fn to_pem(der: &[u8]) -> String {
    let encoded = base64::encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at_checked(PEM_LINE_CHARS).unwrap_or((rest, ""));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;

    fn certificate(name: &str, last_year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec![name.to_string()]).unwrap();
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn blocks(data: &Value, key: &str) -> usize {
        data.str_at(&[key]).matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn servers_add_what_they_need() {
        let [first, second, expired] =
            [certificate("a", 2090), certificate("b", 2090), certificate("c", 2020)];
        let list = |text: &str| text.to_string();
        let of_first = [
            ("client-ca-file", format!("{first}{expired}")),
            ("requestheader-client-ca-file", first.clone()),
            ("requestheader-allowed-names", list(r#"["one"]"#)),
        ];
        let of_second = [
            ("client-ca-file", second.clone()),
            ("requestheader-client-ca-file", first),
            ("requestheader-allowed-names", list(r#"["two","one"]"#)),
        ];
        let mut data = Value::object();
        for required in [&of_first, &of_second, &of_first] {
            data = combine(&data, required, NOW).unwrap();
        }
        assert_eq!(blocks(&data, "client-ca-file"), 2);
        assert_eq!(blocks(&data, "requestheader-client-ca-file"), 1);
        assert_eq!(data.str_at(&["requestheader-allowed-names"]), r#"["one","two"]"#);
        assert_eq!(data.str_at(&["requestheader-group-headers"]), "[]");
        assert!(data.get("requestheader-uid-headers").is_none());
    }

    #[test]
    fn config_maps_that_cannot_be_parsed_are_not_changed() {
        for key in ["requestheader-group-headers", "client-ca-file"] {
            let mut data = Value::object();
            data.set_at(&[key], "something else".into());
            assert_eq!(combine(&data, &[], NOW), None, "{key}");
        }
    }

    #[test]
    fn headers_without_an_authority_are_not_published() {
        let required = [("requestheader-group-headers", r#"["X-Remote-Group"]"#.to_string())];
        assert_eq!(combine(&Value::object(), &required, NOW), Some(Value::object()));
    }
}
