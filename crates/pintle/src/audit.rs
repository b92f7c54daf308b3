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
        let log = log_options(flags)?;
        let webhook = match flags.text("audit-webhook-config-file") {
            "" => None,
            file => {
                let delivery = Delivery::new(flags, "webhook")?;
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
    pub(crate) fn open(self) -> std::io::Result<Option<Arc<Auditor>>> {
        let Some(policy) = self.policy else { return Ok(None) };
        let mut sinks: Vec<Arc<dyn Sink>> = Vec::new();
        if let Some((options, delivery)) = self.log {
            sinks.push(delivery.sink_to(Arc::new(Log::open(options)?)));
        }
        if let Some((webhook, delivery)) = self.webhook {
            sinks.push(delivery.sink_to(Arc::new(webhook)));
        }
        Ok((!sinks.is_empty()).then(|| Auditor::new(policy, sinks)))
    }
}

impl Delivery {
    fn new(flags: &Flags, backend: &str) -> Result<Self, FlagError> {
        let name = |suffix: &str| format!("audit-{backend}-{suffix}");
        let text = |suffix: &str| flags.text(&name(suffix));
        let mode = match text("mode") {
            "batch" => Mode::Batch,
            "blocking" => Mode::Blocking,
            "blocking-strict" => Mode::BlockingStrict,
            other => {
                return Err(FlagError::new(&format!(
                    "invalid audit {backend} mode {other}, allowed modes are \"batch,blocking,blocking-strict\""
                )));
            }
        };
        if text("version") != "audit.k8s.io/v1" {
            return Err(FlagError::new("invalid group version, allowed versions are [\"audit.k8s.io/v1\"]"));
        }
        let positive = |suffix: &str, what: &str| match usize::try_from(flags.int(&name(suffix))) {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(FlagError::new(&format!(
                "invalid audit batch {backend} {what} {}, must be a positive number",
                flags.int(&name(suffix))
            ))),
        };
        let mut batch =
            BatchOptions { buffer_size: 1, max_size: 1, max_wait: Duration::ZERO, throttle: None };
        if mode == Mode::Batch {
            batch.buffer_size = positive("batch-buffer-size", "buffer size")?;
            batch.max_size = positive("batch-max-size", "max batch size")?;
            batch.max_wait = flags.duration(&name("batch-max-wait"));
            if flags.bool(&name("batch-throttle-enable")) {
                let qps = text("batch-throttle-qps").parse().unwrap_or(0.0);
                let burst = u32::try_from(flags.int(&name("batch-throttle-burst"))).unwrap_or(1);
                batch.throttle = Some((qps, burst));
            }
        }
        Ok(Delivery { mode, batch, truncation: truncation_settings(flags, backend)? })
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

fn truncation_settings(flags: &Flags, backend: &str) -> Result<Option<Truncation>, FlagError> {
    if !flags.bool(&format!("audit-{backend}-truncate-enabled")) {
        return Ok(None);
    }
    let event = flags.int(&format!("audit-{backend}-truncate-max-event-size"));
    let batch = flags.int(&format!("audit-{backend}-truncate-max-batch-size"));
    let refuse = |why: String| Err(FlagError::new(&format!("invalid audit truncate {backend} {why}")));
    match (usize::try_from(event), usize::try_from(batch)) {
        (Ok(event_bytes_max @ 1..), Ok(batch_bytes_max)) if batch_bytes_max >= event_bytes_max => {
            Ok(Some(Truncation { event_bytes_max, batch_bytes_max }))
        }
        (Ok(1..), _) => {
            refuse(format!("max batch size {batch}, must be greater than max event size ({event})"))
        }
        _ => refuse(format!("max event size {event}, must be a positive number")),
    }
}

fn log_options(flags: &Flags) -> Result<Option<(LogOptions, Delivery)>, FlagError> {
    let path = flags.text("audit-log-path");
    if path.is_empty() {
        return Ok(None);
    }
    let mut negative = Vec::new();
    for name in ["audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize"] {
        if flags.int(name) < 0 {
            negative.push(format!("--{name} {} can't be a negative number", flags.int(name)));
        }
    }
    FlagError::aggregate(negative)?;
    let format = match flags.text("audit-log-format") {
        "json" => Format::Json,
        "legacy" => Format::Legacy,
        other => {
            return Err(FlagError::new(&format!(
                "invalid audit log format {other}, allowed formats are \"legacy,json\""
            )));
        }
    };
    let number = |name: &str| u64::try_from(flags.int(name)).unwrap_or(0);
    let options = LogOptions {
        path: (path != "-").then(|| PathBuf::from(path)),
        format,
        max_age_days: number("audit-log-maxage"),
        max_backups: usize::try_from(number("audit-log-maxbackup")).unwrap_or(usize::MAX),
        max_size_bytes: number("audit-log-maxsize").saturating_mul(BYTES_PER_MEGABYTE),
        compress: flags.bool("audit-log-compress"),
    };
    Ok(Some((options, Delivery::new(flags, "log")?)))
}
