//! Validates the values of flags as kube-apiserver does, with its messages. Flags without effect are validated too: a
//! mistake in them should not go unnoticed until another server is started with them.

use crate::emulation::{self, MINOR};
use crate::etcd::BAD_OVERRIDE;
use crate::flags::{FlagError, Flags};
use crate::runtime_config::{self, RuntimeConfig};
use crate::{
    audit, authentication, authorization, config, identity_flags, metric_flags, operation, token_signing,
};
use pintle_admission::plugin_faults;
use pintle_value::quantity::Quantity;
use std::path::Path;

/// Numbers and durations that must not be negative, with the message. Those after the chance of a GOAWAY are in `LATER_NOT_NEGATIVE`.
const NOT_NEGATIVE: [(&str, &str); 4] = [
    ("livez-grace-period", "--livez-grace-period can not be a negative value"),
    ("max-requests-inflight", "--max-requests-inflight can not be negative value"),
    ("max-mutating-requests-inflight", "--max-mutating-requests-inflight can not be negative value"),
    ("request-timeout", "--request-timeout can not be negative value"),
];
const LATER_NOT_NEGATIVE: [(&str, &str); 4] = [
    ("min-request-timeout", "--min-request-timeout can not be negative value"),
    ("storage-initialization-timeout", "--storage-initialization-timeout can not be negative value"),
    ("shutdown-delay-duration", "--shutdown-delay-duration can not be negative value"),
    (
        "shutdown-watch-termination-grace-period",
        "shutdown-watch-termination-grace-period, if provided, can not be a negative value",
    ),
];
/// How the endpoints of the service `kubernetes` can be maintained.
const RECONCILERS: [&str; 3] = ["lease", "master-count", "none"];
/// Flags of buffers of the log, which need a feature gate.
const LOG_BUFFERS: [(&str, &str, &str); 2] = [
    ("text", "log-text-split-stream", "log-text-info-buffer-size"),
    ("json", "log-json-split-stream", "log-json-info-buffer-size"),
];
/// Flags that belong to the proxy between servers.
const PEER_FLAGS: [&str; 3] = ["peer-ca-file", "peer-advertise-ip", "peer-advertise-port"];
/// The encodings that objects can be stored in.
const MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// Refuses values that kube-apiserver refuses while it parses them.
pub(crate) fn check_values(flags: &Flags) -> Result<(), FlagError> {
    let name = "oidc-required-claim";
    if let Some(value) = flags.values(name).iter().find(|value| !value.contains('=')) {
        let why = "malformed pair, expect string=string";
        return Err(FlagError::new(&format!("invalid argument {value:?} for \"--{name}\" flag: {why}")));
    }
    metric_flags::allowed_values(flags)?;
    check_buffer_sizes(flags)?;
    config::node_ports(flags.text("service-node-port-range"))?;
    operation::named_certificates(&flags.values("tls-sni-cert-key"))?;
    operation::modules(flags).map(|_| ())
}

/// Refuses flags that kube-apiserver refuses, in its order: those of the log, then what it completes, each alone, and then
/// all that it validates together.
pub(crate) fn check(flags: &Flags) -> Result<(), FlagError> {
    check_log(flags)?;
    complete(flags)?;
    FlagError::aggregate(validation_errors(flags)?)
}

/// What kube-apiserver computes before it validates.
fn complete(flags: &Flags) -> Result<(), FlagError> {
    config::service_networks(flags)?;
    create_certificate_folder(flags)?;
    config::token_seconds_max(flags)?;
    token_signing::check_key(flags)?;
    if flags.bool("watch-cache") { check_watch_cache_sizes(flags) } else { Ok(()) }
}

/// The folder of a serving certificate that the server issues itself must be writable before anything is validated.
fn create_certificate_folder(flags: &Flags) -> Result<(), FlagError> {
    let folder = flags.text("cert-dir");
    if !flags.given("cert-dir") || folder.is_empty() || !flags.text("tls-cert-file").is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|error| {
        let why = crate::config_file::go_text(Path::new(folder), &error).replacen("open ", "mkdir ", 1);
        FlagError::new(&format!("error creating self-signed certificates: {why}"))
    })
}

/// All errors that kube-apiserver reports together, in its order.
fn validation_errors(flags: &Flags) -> Result<Vec<String>, FlagError> {
    let is_negative = |name: &str| flags.int(name) < 0 || flags.signed_duration(name).0 < 0;
    let negative = |names: &[(&str, &'static str)]| -> Vec<String> {
        names.iter().filter(|(name, _)| is_negative(name)).map(|(_, why)| (*why).to_string()).collect()
    };
    let mut errors = negative(&NOT_NEGATIVE);
    errors.extend(operation::goaway_error(flags));
    errors.extend(negative(&LATER_NOT_NEGATIVE));
    errors.extend(config::strict_transport(flags).err().map(|error| error.to_string()));
    errors.extend(operation::cors_errors(flags));
    errors.extend(emulation::errors(flags)?);
    errors.extend(storage_errors(flags));
    errors.extend(fairness_error(flags));
    errors.extend(secure_port_error(flags));
    errors.extend(authentication::flag_error(flags));
    errors.extend(identity_flags::errors(flags));
    errors.extend(authorization::errors(flags));
    errors.extend(audit::errors(flags));
    let [enabled, disabled, only] =
        ["enable-admission-plugins", "disable-admission-plugins", "admission-control"]
            .map(|name| flags.raw_list(name));
    errors.extend(plugin_faults(&enabled, &disabled, &only));
    errors.extend(RuntimeConfig::flag_error(&runtime_config::entries(flags)));
    errors.extend(token_signing::request_error(flags));
    errors.extend(metrics_errors(flags));
    errors.extend(peer_errors(flags)?);
    errors.extend(token_signing::errors(flags));
    errors.extend(leadership_errors(flags));
    errors.extend(config::service_network_errors(flags));
    errors.extend(node_port_errors(flags));
    if flags.int("apiserver-count") <= 0 {
        let count = flags.int("apiserver-count");
        errors.push(format!("--apiserver-count should be a positive number, but value '{count}' provided"));
    }
    Ok(errors)
}

fn storage_errors(flags: &Flags) -> Vec<String> {
    let mut errors = Vec::new();
    if !matches!(flags.text("storage-backend"), "" | "etcd3") {
        errors.push(
            "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'"
                .to_string(),
        );
    }
    if flags.list("etcd-servers-overrides").iter().any(|item| !is_override(item)) {
        errors.push(BAD_OVERRIDE.to_string());
    }
    if flags.bool("encryption-provider-config-automatic-reload")
        && flags.text("encryption-provider-config").is_empty()
    {
        errors.push(
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
                .to_string(),
        );
    }
    let media_type = flags.text("storage-media-type");
    // An empty value means JSON.
    if !media_type.is_empty() && !MEDIA_TYPES.contains(&media_type) {
        errors.push(format!(
            "--storage-media-type {media_type:?} invalid, allowed values: {}",
            MEDIA_TYPES.join(", ")
        ));
    }
    errors
}

fn secure_port_error(flags: &Flags) -> Option<String> {
    let port = flags.int("secure-port");
    // Unlike kube-apiserver, Pintle chooses a port if it is 0.
    (!(0..=65535).contains(&port)).then(|| {
        format!("--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0")
    })
}

/// Returns the type of `--endpoint-reconciler-type` if it is not known. kube-apiserver notices it after all other checks.
pub(crate) fn unknown_reconciler(flags: &Flags) -> Option<&str> {
    Some(flags.text("endpoint-reconciler-type")).filter(|type_| !RECONCILERS.contains(type_))
}

/// Refuses flags of the log, before all others. Its buffers need a feature gate.
pub(crate) fn check_log(flags: &Flags) -> Result<(), FlagError> {
    let mut errors = Vec::new();
    let frequency = flags.signed_duration("log-flush-frequency");
    if frequency.0 < 1 {
        let why = "Must be greater than zero";
        errors.push(format!("flushFrequency: Invalid value: \"{frequency}\": {why}"));
    }
    let format = flags.text("logging-format");
    if !matches!(format, "text" | "json") {
        errors.push(format!("format: Invalid value: {format:?}: Unsupported log format"));
    }
    let verbosity = flags.int("v");
    if verbosity > i64::from(i32::MAX) {
        errors.push(format!("verbosity: Invalid value: {verbosity}: Must be <= {}", i32::MAX));
    }
    if format != "text" && !format.is_empty() && flags.list("vmodule").iter().any(|item| !item.is_empty()) {
        errors.push("vmodule: Forbidden: Only supported for text log format".to_string());
    }
    if flags.gates()?.get("LoggingAlphaOptions") != Some(&true) {
        for (format, split, size) in LOG_BUFFERS {
            let is_zero = Quantity::parse(flags.text(size)).is_ok_and(|size| size.is_zero());
            let used =
                [("splitStream", flags.bool(split)), ("infoBufferSize", flags.given(size) && !is_zero)];
            errors.extend(used.iter().filter(|(_, is_used)| *is_used).map(|(field, _)| {
                format!("options.{format}.{field}: Forbidden: Feature LoggingAlphaOptions is disabled")
            }));
        }
    }
    FlagError::aggregate(errors)
}

/// Sizes of buffers are quantities.
fn check_buffer_sizes(flags: &Flags) -> Result<(), FlagError> {
    for (_, _, name) in LOG_BUFFERS.iter().filter(|(_, _, name)| flags.given(name)) {
        let value = flags.text(name);
        if let Err(error) = Quantity::parse(value) {
            return Err(FlagError::new(&format!(
                "invalid argument {value:?} for \"--{name}\" flag: {error}"
            )));
        }
    }
    Ok(())
}

/// Priority and fairness needs its own version.
fn fairness_error(flags: &Flags) -> Option<String> {
    let config = runtime_config::entries(flags);
    // kube-apiserver searches the text of all entries, sorted.
    let text = config.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let decides = |key: &&&str| [true, false].iter().any(|on| text.contains(&format!("{key}={on}")));
    let decisive = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"];
    let off = decisive.iter().find(decides).filter(|key| text.contains(&format!("{key}=false")));
    let off = off.filter(|_| flags.bool("enable-priority-and-fairness"));
    off.map(|key| format!("--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"))
}

/// Errors of the flags of the proxy between servers.
fn peer_errors(flags: &Flags) -> Result<Vec<String>, FlagError> {
    let gate = "UnknownVersionInteroperabilityProxy";
    if flags.gates()?.get(gate) == Some(&true) {
        return Ok(Vec::new());
    }
    let given = PEER_FLAGS.iter().filter(|name| !flags.text(name).is_empty());
    Ok(given.map(|name| format!("--{name} requires {gate} feature to be turned on")).collect())
}

/// Errors of the times of coordinated leader election: each must be greater than the next.
fn leadership_errors(flags: &Flags) -> Vec<String> {
    let names = ["lease-duration", "renew-deadline", "retry-period"];
    let names = names.map(|name| format!("coordinated-leadership-{name}"));
    let ordered = names.iter().zip(names.iter().skip(1));
    ordered
        .filter(|(long, short)| flags.signed_duration(long).0 <= flags.signed_duration(short).0)
        .map(|(long, short)| format!("--{long} must be greater than --{short}"))
        .collect()
}

/// Items of `--watch-cache-sizes` are a resource, `#` and a number.
fn check_watch_cache_sizes(flags: &Flags) -> Result<(), FlagError> {
    for item in flags.list("watch-cache-sizes") {
        let parts: Vec<&str> = item.split('#').collect();
        let [_, size] = parts.as_slice() else {
            return Err(FlagError::new(&format!("invalid value of watch cache size: {item}")));
        };
        match size.parse::<i64>() {
            Ok(size) if size < 0 => {
                return Err(FlagError::new(&format!("watch cache size cannot be negative: {item}")));
            }
            Ok(_) => {}
            Err(_) => {
                return Err(FlagError::new(&format!("invalid size of watch cache size: {item}")));
            }
        }
    }
    Ok(())
}

/// An override is `group/resource#servers`.
fn is_override(item: &str) -> bool {
    let mut parts = item.split('#');
    let (resource, servers) = (parts.next().unwrap_or(""), parts.next());
    let is_pair = parts.next().is_none() && resource.split('/').count() == 2;
    is_pair && servers.is_some_and(|servers| servers.split(';').all(|server| !server.is_empty()))
}

/// Errors of `--kubernetes-service-node-port`.
fn node_port_errors(flags: &Flags) -> Vec<String> {
    let mut errors = Vec::new();
    let port = flags.int("kubernetes-service-node-port");
    if !(0..=65535).contains(&port) {
        errors.push(format!(
            "--kubernetes-service-node-port {port} must be between 0 and 65535, inclusive. If 0, the Kubernetes master \
             service will be of type ClusterIP"
        ));
    }
    // An invalid range is reported where it is used.
    if let Ok((first, last)) = crate::config::node_ports(flags.text("service-node-port-range"))
        && port > 0
        && !(first..=last).contains(&port)
    {
        errors.push(format!("kubernetes service node port range {first}-{last} doesn't contain {port}"));
    }
    errors
}

fn metrics_errors(flags: &Flags) -> Vec<String> {
    let mut errors = Vec::new();
    let hidden = flags.text("show-hidden-metrics-for-version");
    let previous = format!("1.{}", MINOR.saturating_sub(1));
    if !hidden.is_empty() && hidden != previous {
        errors.push(format!(
            "metrics.showHiddenMetricsForVersion: Invalid value: {hidden:?}: must be omitted or have the value '{previous}'; \
             only the previous minor version is allowed"
        ));
    }
    errors.extend(metric_flags::read(flags).err().into_iter().flatten());
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Invocation, parse};

    fn error(line: &str) -> String {
        let args = line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_string);
        let checked = match parse(args) {
            Ok(Invocation::Serve(flags)) => check(&flags),
            Ok(Invocation::Print(_)) => panic!("{line}"),
            Err(error) => Err(error),
        };
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for (line, want) in [
            ("", ""),
            ("--storage-media-type=", ""),
            ("--secure-port=0 --emulated-version=1.35 --watch-cache-sizes=pods#100,foo.bar#5", ""),
            ("--emulated-version=kube=1.34 --show-hidden-metrics-for-version=1.35", ""),
            ("--request-timeout=-1s", "--request-timeout can not be negative value"),
            ("--min-request-timeout=-1", "--min-request-timeout can not be negative value"),
            (
                "--livez-grace-period=-1s --shutdown-delay-duration=-1s",
                "[--livez-grace-period can not be a negative value, --shutdown-delay-duration can not be negative value]",
            ),
            (
                "--log-flush-frequency=-1s",
                "flushFrequency: Invalid value: \"-1s\": Must be greater than zero",
            ),
            ("--watch-cache-sizes=foo", "invalid value of watch cache size: foo"),
            (
                "--cert-dir=/proc/none --secure-port=-1",
                "error creating self-signed certificates: mkdir /proc/none: no such file or directory",
            ),
            ("--watch-cache-sizes=pods#a", "invalid size of watch cache size: pods#a"),
            ("--watch-cache=false --watch-cache-sizes=pods#a", ""),
            ("--runtime-config=v1=false,api/legacy=false,api/v1/pods=false", ""),
            (
                "--service-account-issuer= --api-audiences=a",
                "[service-account-issuer should not be an empty string, --service-account-signing-key-file, \
                 --service-account-issuer, and --api-audiences should be specified together]",
            ),
            ("--watch-cache-sizes=pods#-1", "watch cache size cannot be negative: pods#-1"),
            ("--emulated-version=1.99", "emulation version 1.99 is not between [1.33, 1.36.0]"),
            (
                "--emulated-version=1.20",
                "[emulation version 1.20 is not between [1.33, 1.36.0], minCompatibilityVersion version 1.33 is not \
                 between [1.33, 1.20]]",
            ),
            ("--emulated-version=1.35.2", "patch version not allowed, got: kube=1.35.2"),
            (
                "--emulated-version=1.34 --emulated-version=1.35",
                "duplicate version flag, kube=1.34 and kube=1.35",
            ),
            (
                "--kubernetes-service-node-port=20",
                "kubernetes service node port range 30000-32767 doesn't contain 20",
            ),
            ("--endpoint-reconciler-type=Lease", ""),
            (
                "--coordinated-leadership-renew-deadline=15s",
                "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline",
            ),
            (
                "--log-json-split-stream --log-text-info-buffer-size=1Ki",
                "[options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled, options.json.splitStream: \
                 Forbidden: Feature LoggingAlphaOptions is disabled]",
            ),
            ("--log-json-split-stream --feature-gates=LoggingAlphaOptions=true", ""),
            (
                "--runtime-config=api/all=false",
                "[--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true, invalid runtime-config with only api/all=false]",
            ),
            (
                "--feature-gates=UnknownVersionInteroperabilityProxy=false --peer-ca-file=x",
                "--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on",
            ),
            ("--etcd-servers-overrides=/pods#", BAD_OVERRIDE),
            ("--emulated-version=foo", "could not parse \"foo\" as version"),
            (
                "--min-compatibility-version=1.37",
                "minCompatibilityVersion version 1.37 is not between [1.33, 1.36]",
            ),
            (
                "--encryption-provider-config-automatic-reload",
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config",
            ),
            (
                "--tls-sni-cert-key=a --authorization-mode=Nope",
                "invalid argument \"a\" for \"--tls-sni-cert-key\" flag: expected comma separated certificate and key file paths",
            ),
            ("--goaway-chance=0.5", "--goaway-chance can not be less than 0 or greater than 0.02"),
            ("--logging-format=", "format: Invalid value: \"\": Unsupported log format"),
            (
                "--logging-format=json --vmodule=a=1 --log-flush-frequency=0s",
                "[flushFrequency: Invalid value: \"0s\": Must be greater than zero, vmodule: Forbidden: Only supported for text log format]",
            ),
            (
                "--audit-log-path=x --audit-log-maxage=-1 --audit-log-format=xml --audit-log-mode=slow --audit-log-version=v1 \
                 --audit-log-truncate-max-event-size=0",
                "[invalid audit log mode slow, allowed modes are \"batch,blocking,blocking-strict\", invalid audit truncate log max \
                 event size 0, must be a positive number, invalid group version, allowed versions are [\"audit.k8s.io/v1\"], invalid \
                 audit log format xml, allowed formats are \"legacy,json\", --audit-log-maxage -1 can't be a negative number]",
            ),
            (
                "--audit-log-path=x --audit-log-mode=batch --audit-log-batch-throttle-enable",
                "invalid audit batch log throttle QPS 0, must be a positive number",
            ),
            (
                "--request-timeout=-1s --storage-backend=x --secure-port=70000 --oidc-client-id=a --service-account-issuer=a:%zz \
                 --authorization-mode=RBAC,Nope --enable-admission-plugins=Nope --runtime-config=nope.k8s.io/v1=true,a=true \
                 --apiserver-count=-1",
                "[--request-timeout can not be negative value, --storage-backend invalid, allowed values: etcd3. If not specified, it \
                 will default to 'etcd3', --secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off with 0, \
                 oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set, authorization-mode \
                 \"Nope\" is not a valid mode, enable-admission-plugins plugin \"Nope\" is unknown, runtime-config invalid key a, \
                 --apiserver-count should be a positive number, but value '-1' provided]",
            ),
            (
                "--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24,nonsense",
                "[--service-cluster-ip-range must not contain more than two entries, --service-cluster-ip-range[0] and \
                 --service-cluster-ip-range[1] must be of different IP family]",
            ),
            ("--apiserver-count=0", "--apiserver-count should be a positive number, but value '0' provided"),
        ] {
            assert_eq!(error(line), want, "{line}");
        }
    }
}
