//! `--tracing-config-file`: the destination and the sampling rate of traces.

use crate::flags::{FlagError, Flags};
use pintle_meta::go_type::{GoStruct, GoType, head_type_error, unregistered_kind};
use pintle_trace::Settings;
use pintle_value::{Value, yaml};

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const DEFAULT_ENDPOINT: &str = "localhost:4317";
/// The fields are those of an embedded struct of the same name.
const FILE: GoStruct = GoStruct(
    "TracingConfiguration.TracingConfiguration",
    &[("endpoint", GoType::Text("string")), ("samplingRatePerMillion", GoType::Int32)],
);

/// Reads the file, if there is one.
pub(crate) fn read(flags: &Flags) -> Result<Option<Settings>, FlagError> {
    let path = flags.text("tracing-config-file");
    if path.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| FlagError::new(&format!("failed to read tracing config: {why}"));
    let bytes = std::fs::read(path).map_err(|error| {
        let why = crate::config_file::go_text(std::path::Path::new(path), &error);
        wrong(format!("unable to read tracing configuration from {path:?}: {why}"))
    })?;
    let tree =
        decode(&bytes).map_err(|why| wrong(format!("unable to decode tracing configuration data: {why}")))?;
    let settings = read_settings(&tree);
    settings
        .map(Some)
        .map_err(|why| FlagError::new(&format!("failed to validate tracing configuration: {why}")))
}

fn decode(bytes: &[u8]) -> Result<Value, String> {
    let tree = yaml::parse(bytes).map_err(|error| error.message().to_string())?.value;
    if let Some(error) = head_type_error(&tree) {
        return Err(error);
    }
    let (version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
    // kube-apiserver knows what it reads, so neither has to be given.
    let is_known = version.is_empty() || VERSIONS.contains(&version);
    if !is_known || !matches!(kind, "" | "TracingConfiguration") {
        let scheme = "k8s.io/apiserver/pkg/server/options/tracing.go:49";
        return Err(unregistered_kind(kind, version, scheme));
    }
    let package = version.rsplit('/').next().unwrap_or_default();
    FILE.strict_error(&tree, package, None).map_or(Ok(tree), Err)
}

fn read_settings(tree: &Value) -> Result<Settings, String> {
    let mut errors = Vec::new();
    let rate = tree.get("samplingRatePerMillion").and_then(Value::as_int).unwrap_or(0);
    let per_million = u32::try_from(rate).ok().filter(|rate| *rate <= 1_000_000);
    if per_million.is_none() {
        let why = if rate < 0 {
            "sampling rate must be positive"
        } else {
            "sampling rate per million must be less than or equal to one million"
        };
        errors.push(format!("samplingRatePerMillion: Invalid value: {rate}: {why}"));
    }
    let endpoint = tree.str_at(&["endpoint"]);
    if let Err(error) = check_endpoint(endpoint) {
        errors.push(error);
    }
    if !errors.is_empty() {
        return Err(pintle_auth::aggregate(errors));
    }
    let endpoint = if endpoint.is_empty() { DEFAULT_ENDPOINT } else { endpoint };
    let endpoint = endpoint.trim_start_matches("dns:///").trim_start_matches("dns://").to_string();
    Ok(Settings { endpoint, per_million: per_million.unwrap_or(0) })
}

/// An endpoint is a name of gRPC, whose scheme is `dns` if it has none.
fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let url = if endpoint.contains("://") { endpoint.to_string() } else { format!("dns://{endpoint}") };
    let refused = |why: &str| Err(format!("endpoint: Invalid value: {url:?}: {why}"));
    if let Err(why) = pintle_auth::check_url(&url) {
        return refused(&why);
    }
    match url.split_once("://").map_or("", |(scheme, _)| scheme) {
        "dns" | "unix" | "unix-abstract" => Ok(()),
        scheme => refused(&format!(
            "unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  See \
             https://github.com/grpc/grpc/blob/master/doc/naming.md"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_a_collector_and_a_rate() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
        let settings =
            |rest: &str| decode(format!("{text}{rest}").as_bytes()).and_then(|tree| read_settings(&tree));
        let want = Settings { endpoint: "c:1".into(), per_million: 100 };
        assert_eq!(settings("endpoint: c:1\nsamplingRatePerMillion: 100\n"), Ok(want));
        assert_eq!(settings("").map(|s| s.endpoint), Ok(DEFAULT_ENDPOINT.to_string()));
        for (wrong, want) in [
            (
                "samplingRatePerMillion: -1\n",
                "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
            ),
            ("samplingRatePerMillion: 1000001\n", "must be less than or equal to one million"),
            (
                "samplingRatePerMillion: a\n",
                "cannot unmarshal string into Go struct field TracingConfiguration.TracingConfiguration.samplingRatePerMillion of type int32",
            ),
            ("endpoint: 'http://a'\n", "endpoint: Invalid value: \"http://a\": unsupported scheme: http."),
            (
                "endpoint: a b\n",
                "endpoint: Invalid value: \"dns://a b\": parse \"dns://a b\": invalid character",
            ),
            ("colour: red\n", "strict decoding error: unknown field \"colour\""),
        ] {
            let error = settings(wrong).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
        assert!(decode(b"kind: TracingConfiguration\n").is_ok());
        assert!(decode(b"apiVersion: v1\nkind: TracingConfiguration\n").is_err());
    }
}
