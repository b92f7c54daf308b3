//! Where a webhook is reached, as the `clientConfig` of definitions and of admission configurations says.

use pintle_value::{Str, Value, base64};

/// Where a webhook is reached and whom it must prove to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub place: Place,
    /// The authorities of its certificate in PEM; empty for those of the system.
    pub ca_bundle: Vec<u8>,
}

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `https://host[:port][/path]`
    Url(Str),
    /// A service of this cluster.
    Service {
        /// Its namespace.
        namespace: Str,
        /// Its name.
        name: Str,
        /// The path on it.
        path: Str,
        /// The port of the service.
        port: u16,
    },
}

/// The port of services that name none.
const PORT: u16 = 443;

impl Endpoint {
    /// Reads a `clientConfig`; `None` where it names no place.
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

/// How objects of a kind get from one version to another where more than their apiVersion differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Who is asked.
    pub endpoint: Endpoint,
    /// Versions of `ConversionReview` that it understands, the best first.
    pub review_versions: Vec<Str>,
}

impl Conversion {
    /// Reads the `conversion` of a definition; `None` where versions differ in their apiVersion alone.
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
