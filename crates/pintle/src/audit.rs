//! Audit logging from the flags: policy, log and webhook.

mod webhook;

use crate::egress;
use crate::flags::{FlagError, Flags};
use pintle_audit::sink::{BatchOptions, Batched, Blocking, Format, Log, LogOptions, Sink, Truncation};
use pintle_audit::{Auditor, Policy};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use webhook::Webhook;

const BYTES_PER_MEGABYTE: u64 = 1024 * 1024;

/// The audit flags, validated.
pub(crate) struct AuditConfig {
    policy: Option<Policy>,
    log: Option<(LogOptions, Delivery)>,
    webhook: Option<(Webhook, Delivery)>,
}

/// How events reach a backend.
struct Delivery {
    mode: Mode,
    batch: BatchOptions,
    truncation: Option<Truncation>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Batch,
    Blocking,
    BlockingStrict,
}

impl AuditConfig {
    /// Reads and checks the flags and the files that they name.
    pub(crate) fn new(flags: &Flags) -> Result<Self, FlagError> {
        let log = log_options(flags);
        let webhook = match flags.text("audit-webhook-config-file") {
            "" => None,
            file => {
                let delivery = Delivery::new(flags, "webhook");
                let backoff = flags.duration("audit-webhook-initial-backoff");
                let dialer = egress::read(flags)?.unwrap_or_default().to_control_plane();
                let webhook = Webhook::load(Path::new(file), backoff, dialer);
                Some((webhook.map_err(|e| FlagError::new(&e))?, delivery))
            }
        };
        let policy = match flags.text("audit-policy-file") {
            "" => None,
            file => Some(Policy::load(Path::new(file)).map_err(|e| FlagError::new(&e.to_string()))?),
        };
        Ok(AuditConfig { policy, log, webhook })
    }

    /// Opens the backends; `None` without a policy or without a backend.
    pub(crate) fn open(self) -> Result<Option<Arc<Auditor>>, FlagError> {
        let Some(policy) = self.policy else { return Ok(None) };
        let mut sinks: Vec<Arc<dyn Sink>> = Vec::new();
        if let Some((options, delivery)) = self.log {
            let path = options.path.clone().unwrap_or_default();
            let log = Log::open(options).map_err(|error| {
                // Opening a folder for writing fails, unlike opening it for reading.
                let why = crate::config_file::go_text(&path, &error).replacen("read ", "open ", 1);
                FlagError::new(&format!("ensureLogFile: {why}"))
            })?;
            sinks.push(delivery.sink_to(Arc::new(log)));
        }
        if let Some((webhook, delivery)) = self.webhook {
            sinks.push(delivery.sink_to(Arc::new(webhook)));
        }
        Ok((!sinks.is_empty()).then(|| Auditor::new(policy, sinks)))
    }
}

impl Delivery {
    fn new(flags: &Flags, backend: &str) -> Self {
        let name = |suffix: &str| format!("audit-{backend}-{suffix}");
        let text = |suffix: &str| flags.text(&name(suffix));
        let mode = match text("mode") {
            "batch" => Mode::Batch,
            "blocking-strict" => Mode::BlockingStrict,
            _ => Mode::Blocking,
        };
        let number = |suffix: &str| usize::try_from(flags.int(&name(suffix))).unwrap_or(1);
        let mut batch =
            BatchOptions { buffer_size: 1, max_size: 1, max_wait: Duration::ZERO, throttle: None };
        if mode == Mode::Batch {
            batch.buffer_size = number("batch-buffer-size");
            batch.max_size = number("batch-max-size");
            batch.max_wait = flags.duration(&name("batch-max-wait"));
            if flags.bool(&name("batch-throttle-enable")) {
                let qps = text("batch-throttle-qps").parse().unwrap_or(0.0);
                let burst = u32::try_from(flags.int(&name("batch-throttle-burst"))).unwrap_or(1);
                batch.throttle = Some((qps, burst));
            }
        }
        Delivery { mode, batch, truncation: truncation_settings(flags, backend) }
    }

    fn sink_to(self, backend: Arc<dyn pintle_audit::sink::Backend>) -> Arc<dyn Sink> {
        match self.mode {
            Mode::Batch => Arc::new(Batched::start(backend, self.batch, self.truncation)),
            mode => Arc::new(Blocking {
                backend,
                strict: mode == Mode::BlockingStrict,
                truncation: self.truncation,
            }),
        }
    }
}

fn truncation_settings(flags: &Flags, backend: &str) -> Option<Truncation> {
    let number =
        |suffix: &str| usize::try_from(flags.int(&format!("audit-{backend}-truncate-{suffix}"))).unwrap_or(1);
    flags.bool(&format!("audit-{backend}-truncate-enabled")).then(|| Truncation {
        event_bytes_max: number("max-event-size"),
        batch_bytes_max: number("max-batch-size"),
    })
}

fn log_options(flags: &Flags) -> Option<(LogOptions, Delivery)> {
    let path = flags.text("audit-log-path");
    if path.is_empty() {
        return None;
    }
    let number = |name: &str| u64::try_from(flags.int(name)).unwrap_or(0);
    let options = LogOptions {
        path: (path != "-").then(|| PathBuf::from(path)),
        format: if flags.text("audit-log-format") == "legacy" { Format::Legacy } else { Format::Json },
        max_age_days: number("audit-log-maxage"),
        max_backups: usize::try_from(number("audit-log-maxbackup")).unwrap_or(usize::MAX),
        max_size_bytes: number("audit-log-maxsize").saturating_mul(BYTES_PER_MEGABYTE),
        compress: flags.bool("audit-log-compress"),
    };
    Some((options, Delivery::new(flags, "log")))
}

/// Errors of the flags of backends that are used.
pub(crate) fn errors(flags: &Flags) -> Vec<String> {
    let mut errors = Vec::new();
    if !flags.text("audit-log-path").is_empty() {
        errors.extend(backend_errors(flags, "log"));
        let format = flags.text("audit-log-format");
        if !matches!(format, "legacy" | "json") {
            errors.push(format!("invalid audit log format {format}, allowed formats are \"legacy,json\""));
        }
        for name in ["audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize"] {
            if flags.int(name) < 0 {
                errors.push(format!("--{name} {} can't be a negative number", flags.int(name)));
            }
        }
    }
    if !flags.text("audit-webhook-config-file").is_empty() {
        errors.extend(backend_errors(flags, "webhook"));
    }
    errors
}

/// The first error of how events are batched, the first of how they are truncated (even if they are not), and that of their
/// version.
fn backend_errors(flags: &Flags, backend: &str) -> Vec<String> {
    let version = flags.text(&format!("audit-{backend}-version")) != "audit.k8s.io/v1";
    let version =
        version.then(|| "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]".to_string());
    [batch_error(flags, backend), truncation_error(flags, backend), version].into_iter().flatten().collect()
}

fn batch_error(flags: &Flags, backend: &str) -> Option<String> {
    let name = |suffix: &str| format!("audit-{backend}-{suffix}");
    let mode = flags.text(&name("mode"));
    match mode {
        "batch" => {}
        "blocking" | "blocking-strict" => return None,
        _ => {
            let modes = "batch,blocking,blocking-strict";
            return Some(format!("invalid audit {backend} mode {mode}, allowed modes are \"{modes}\""));
        }
    }
    let qps: f32 = flags.text(&name("batch-throttle-qps")).parse().unwrap_or(0.0);
    let burst = flags.int(&name("batch-throttle-burst"));
    let is_throttled = flags.bool(&name("batch-throttle-enable"));
    let (buffer, size) = (flags.int(&name("batch-buffer-size")), flags.int(&name("batch-max-size")));
    let (what, value) = if buffer <= 0 {
        ("buffer size", buffer.to_string())
    } else if size <= 0 {
        ("max batch size", size.to_string())
    } else if is_throttled && qps <= 0.0 {
        ("throttle QPS", qps.to_string())
    } else if is_throttled && burst <= 0 {
        ("throttle burst", burst.to_string())
    } else {
        return None;
    };
    Some(format!("invalid audit batch {backend} {what} {value}, must be a positive number"))
}

fn truncation_error(flags: &Flags, backend: &str) -> Option<String> {
    let event = flags.int(&format!("audit-{backend}-truncate-max-event-size"));
    let batch = flags.int(&format!("audit-{backend}-truncate-max-batch-size"));
    let why = if event <= 0 {
        format!("max event size {event}, must be a positive number")
    } else if batch < event {
        format!("max batch size {batch}, must be greater than max event size ({event})")
    } else {
        return None;
    };
    Some(format!("invalid audit truncate {backend} {why}"))
}
