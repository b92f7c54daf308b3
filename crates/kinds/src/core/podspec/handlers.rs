//! Probes and lifecycle handlers of containers.

use crate::fields::{int, list, member, opt_int, opt_text, text};
use crate::{check, facts};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const PROBE: &str = "core/v1.Probe";
/// Real-time signals are numbered from both ends.
const REAL_TIME_LOW_MAX: u32 = 15;
const REAL_TIME_HIGH_MAX: u32 = 14;
const SIGNALS: &str = "SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE SIGPOLL SIGPROF SIGPWR SIGQUIT \
    SIGRTMAX SIGRTMIN SIGSEGV SIGSTKFLT SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ";

/// Validates lifecycle and probes of a container. `grace` is the pod's grace period.
pub(crate) fn validate(
    container: &Value,
    grace: Option<i64>,
    os: Option<&str>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if let Some(own) = member(container, "lifecycle") {
        validate_lifecycle(own, grace, os, &path.field("lifecycle"), errors);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(own) = member(container, name) else { continue };
        let path = path.field(name);
        validate_probe(own, grace, &path, errors);
        if name == "readinessProbe" {
            if let Some(seconds) = opt_int(own, "terminationGracePeriodSeconds") {
                let field = path.field("terminationGracePeriodSeconds");
                errors.invalid(&field, seconds, "must not be set for readinessProbes");
            }
        } else if int(own, "successThreshold") != 1 {
            errors.invalid(&path.field("successThreshold"), int(own, "successThreshold"), "must be 1");
        }
    }
}

fn validate_probe(probe: &Value, grace: Option<i64>, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_handler(probe, PROBE, grace, path, errors);
    facts::check(probe, PROBE, path, errors);
}

fn validate_lifecycle(
    own: &Value,
    grace: Option<i64>,
    os: Option<&str>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    for name in ["postStart", "preStop"] {
        if let Some(hook) = member(own, name) {
            validate_handler(hook, "core/v1.LifecycleHandler", grace, &path.field(name), errors);
        }
    }
    if let Some(signal) = opt_text(own, "stopSignal") {
        validate_stop_signal(signal, os, &path.field("stopSignal"), errors);
    }
}

fn validate_handler(
    handler: &Value,
    block: &str,
    grace: Option<i64>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    facts::check_union(handler, block, path, errors, |action, errors| {
        if !action.is_refused {
            validate_handler_action(action.field, action.value, grace, &path.field(action.field), errors);
        }
    });
}

fn validate_handler_action(
    kind: &str,
    action: &Value,
    grace: Option<i64>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    match kind {
        "exec" => facts::check(action, "core/v1.ExecAction", path, errors),
        "httpGet" => validate_http_get(action, path, errors),
        "sleep" => validate_sleep(int(action, "seconds"), grace, path, errors),
        _ => check::port_number_or_name(&path.field("port"), action.get("port"), errors),
    }
}

fn validate_http_get(action: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(action, "core/v1.HTTPGetAction", path, errors);
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        check::each(names::is_http_header_name(name), &path.field("httpHeaders"), name, errors);
    }
}

/// An invalid grace period is reported elsewhere.
fn validate_sleep(seconds: i64, grace: Option<i64>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(grace) = grace else { return };
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, seconds, &detail);
    }
}

fn validate_stop_signal(signal: &str, os: Option<&str>, path: &Path<'_>, errors: &mut FieldErrors) {
    match os {
        None => errors.forbidden(path, "may not be set for containers with empty `spec.os.name`"),
        Some("windows") => check::supported(path, Some(signal), &["SIGKILL", "SIGTERM"], errors),
        Some("linux") => {
            let signals = linux_signals();
            if !signals.iter().any(|s| s == signal) {
                let signals: Vec<&str> = signals.iter().map(String::as_str).collect();
                errors.not_supported(path, Named(signal), &signals);
            }
        }
        Some(_) => {}
    }
}

fn linux_signals() -> Vec<String> {
    let mut signals: Vec<String> = SIGNALS.split(' ').map(String::from).collect();
    signals.extend((1..=REAL_TIME_LOW_MAX).map(|n| format!("SIGRTMIN+{n}")));
    signals.extend((1..=REAL_TIME_HIGH_MAX).map(|n| format!("SIGRTMAX-{n}")));
    signals.sort();
    signals
}
