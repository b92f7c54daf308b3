//! `--tracing-config-file`: the destination and the sampling rate of traces.

use crate::flags::{FlagError, Flags};
use pintle_trace::Settings;
use pintle_value::{Value, yaml};

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const DEFAULT_ENDPOINT: &str = "localhost:4317";

/// Reads the file, if there is one.
pub(crate) fn read(flags: &Flags) -> Result<Option<Settings>, FlagError> {
    let path = flags.text("tracing-config-file");
    if path.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| FlagError::new(&format!("failed to read tracing config: {why}"));
    let bytes = std::fs::read(path)
        .map_err(|e| wrong(format!("unable to read tracing configuration from {path:?}: {e}")))?;
    parse(&bytes).map(Some).map_err(wrong)
}

fn parse(bytes: &[u8]) -> Result<Settings, String> {
    let undecodable = |why: String| format!("unable to decode tracing configuration data: {why}");
    let tree = yaml::parse(bytes).map_err(|e| undecodable(e.message().to_string()))?.value;
    let (version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
    if !VERSIONS.contains(&version) || kind != "TracingConfiguration" {
        return Err(undecodable(format!("no kind {kind:?} is registered for version {version:?}")));
    }
    let endpoint = match tree.str_at(&["endpoint"]) {
        "" => DEFAULT_ENDPOINT,
        given => given.trim_start_matches("http://").trim_start_matches("dns:///"),
    };
    let rate = tree.get("samplingRatePerMillion").and_then(Value::as_int).unwrap_or(0);
    match u32::try_from(rate).ok().filter(|rate| *rate <= 1_000_000) {
        Some(per_million) => Ok(Settings { endpoint: endpoint.to_string(), per_million }),
        None if rate < 0 => Err(format!(
            "tracing.samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive"
        )),
        None => Err(format!(
            "tracing.samplingRatePerMillion: Invalid value: {rate}: sampling rate per million must be less than or equal to one million"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_a_collector_and_a_rate() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
        let settings = |rest: &str| parse(format!("{text}{rest}").as_bytes());
        let want = Settings { endpoint: "c:1".into(), per_million: 100 };
        assert_eq!(settings("endpoint: c:1\nsamplingRatePerMillion: 100\n"), Ok(want));
        assert_eq!(settings("").map(|s| s.endpoint), Ok(DEFAULT_ENDPOINT.to_string()));
        for wrong in ["samplingRatePerMillion: -1\n", "samplingRatePerMillion: 1000001\n"] {
            assert!(settings(wrong).is_err(), "{wrong}");
        }
        assert!(parse(b"kind: TracingConfiguration\n").is_err());
    }
}
