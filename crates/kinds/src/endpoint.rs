//! The endpoint of a webhook, from the `clientConfig` of definitions and admission configurations.

use pintle_value::{Str, Value, base64};
use x509_parser::pem::Pem;

/// The URL or service of a webhook and its CA bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The endpoint's address.
    pub place: Place,
    /// The endpoint's CA bundle in PEM; empty means the system's.
    pub ca_bundle: Vec<u8>,
}

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `https://host[:port][/path]`
    Url(Str),
    /// A service of this cluster.
    Service {
        /// The service's namespace.
        namespace: Str,
        /// The service's name.
        name: Str,
        /// The path on the service.
        path: Str,
        /// The port of the service.
        port: u16,
    },
}

/// The default port of services.
const PORT: u16 = 443;

impl Endpoint {
    /// Parses a `clientConfig`; `None` if it has no endpoint.
    pub fn of(client_config: &Value) -> Option<Endpoint> {
        let place = match (client_config.get("service"), client_config.str_at(&["url"])) {
            (Some(service @ Value::Object(_)), _) => Place::Service {
                namespace: service.str_at(&["namespace"]).into(),
                name: service.str_at(&["name"]).into(),
                path: service.str_at(&["path"]).into(),
                port: service
                    .get("port")
                    .and_then(Value::as_int)
                    .and_then(|port| u16::try_from(port).ok())
                    .unwrap_or(PORT),
            },
            (_, "") => return None,
            (_, url) => Place::Url(url.into()),
        };
        let ca_bundle = base64::decode(client_config.str_at(&["caBundle"])).unwrap_or_default();
        Some(Endpoint { place, ca_bundle })
    }
}

/// The error of an invalid CA bundle, with Go's text. One valid certificate is enough; an empty bundle means the
/// system's.
pub fn ca_bundle_error(bundle: &[u8]) -> Option<String> {
    if bundle.is_empty() {
        return None;
    }
    let mut why = "unable to parse bytes as PEM block";
    for block in Pem::iter_from_buffer(bundle).map_while(Result::ok) {
        match block.parse_x509() {
            _ if block.label != "CERTIFICATE" => why = "no valid certificate authority data seen",
            Ok(_) => return None,
            Err(_) => {
                why = "failed to parse certificate: x509: malformed certificate";
                break;
            }
        }
    }
    Some(format!("unable to load root certificates: {why}"))
}

/// Webhook conversion of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The endpoint of the webhook.
    pub endpoint: Endpoint,
    /// The supported `ConversionReview` versions, the preferred one first.
    pub review_versions: Vec<Str>,
}

impl Conversion {
    /// Parses the `conversion` of a definition; `None` for the strategy None.
    pub fn of(conversion: &Value) -> Option<Conversion> {
        if conversion.str_at(&["strategy"]) != "Webhook" {
            return None;
        }
        let endpoint = Endpoint::of(conversion.at(&["webhook", "clientConfig"])?)?;
        let versions = conversion.items_at(&["webhook", "conversionReviewVersions"]).iter();
        let review_versions = versions.filter_map(Value::as_str).map(Str::from).collect();
        Some(Conversion { endpoint, review_versions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that signed itself.
    const AUTHORITY: &str = "MIIBcDCCARWgAwIBAgIUKRCwwiL4jZ/5GPQaxKq/2woETc4wCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYTAgFw0yNjExMTYw\
        NzQ5MTJaGA8yMTI2MTAyMzA3NDkxMlowDDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABERrFPFMimPe\
        m+nfHO/SAF9chzT1k0aRDTWZntO7msr2qiXu/kAEQNehT6MlFpAGS1DpDcUHmhTnMJ52DDiioMCjUzBRMB0GA1UdDgQWBBTx\
        2vzwhrKsAnSWPM4MGT62X7HUTTAfBgNVHSMEGDAWgBTx2vzwhrKsAnSWPM4MGT62X7HUTTAPBgNVHRMBAf8EBTADAQH/MAoG\
        CCqGSM49BAMCA0kAMEYCIQDH2Ciwwm60BUoEDoOeQker16837z2mC75vPIpsWACkmwIhAMPvVJ9bxsfvxPJkchWX9x1bVCZq\
        SmfsAmhxeKxtx4rn";

    #[test]
    fn authorities_are_read_as_go_reads_them() {
        let pem =
            |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let own = pem("CERTIFICATE", AUTHORITY);
        for (bundle, want) in [
            (String::new(), ""),
            ("\n".to_string(), "unable to parse bytes as PEM block"),
            (pem("CERTIFICATE", "AAAA"), "failed to parse certificate: x509: malformed certificate"),
            (pem("PUBLIC KEY", "AAAA"), "no valid certificate authority data seen"),
            (own.clone(), ""),
            (pem("PUBLIC KEY", "AAAA") + &own, ""),
        ] {
            let error = ca_bundle_error(bundle.as_bytes());
            let why =
                error.as_deref().map(|why| why.trim_start_matches("unable to load root certificates: "));
            assert_eq!(why.unwrap_or(""), want, "{bundle}");
        }
    }
}
