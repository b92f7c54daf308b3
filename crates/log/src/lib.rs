//! Log lines in klog's format, as text or JSON, and the verbosity: `--v`, which can change while the server runs, and
//! `--vmodule`. This is the only subscriber of `tracing` events; spans are not recorded.
//!
//! An event with a field `v` has that verbosity. Of the others, errors and warnings are always logged, `info` from verbosity 1 on,
//! `debug` from 2, `trace` from 4; those of libraries need 4 more.

mod line;
mod vmodule;

pub use vmodule::{VModule, VModuleError};

use line::{Fields, Line};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};

/// The format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// klog's own: `I1117 00:56:28.488883    4219 serve.rs:134] "message" key="value"`.
    Text,
    /// One JSON object per line.
    Json,
}

/// The additional verbosity that events of libraries need.
const OF_LIBRARIES: u32 = 4;

static VERBOSITY: AtomicU32 = AtomicU32::new(0);
static MODULES: OnceLock<VModule> = OnceLock::new();

/// Starts to log to standard error, or with `split` only errors there and the rest to standard output. A second call changes
/// the verbosity only.
pub fn start(format: Format, split: bool, verbosity: u32, modules: VModule) {
    _ = MODULES.set(modules);
    set_verbosity(verbosity);
    // Fails if a test has installed its own subscriber, which then receives the events.
    _ = tracing::subscriber::set_global_default(Logger { format, split });
}

/// Whether events of this verbosity are logged, ignoring `--vmodule`.
pub fn is_enabled(verbosity: u32) -> bool {
    VERBOSITY.load(Ordering::Relaxed) >= verbosity
}

/// Changes the verbosity.
pub fn set_verbosity(verbosity: u32) {
    VERBOSITY.store(verbosity, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
}

struct Logger {
    format: Format,
    /// Whether only errors go to standard error.
    split: bool,
}

impl Logger {
    fn threshold(metadata: &Metadata<'_>) -> u32 {
        let of_module = MODULES.get().and_then(|modules| modules.verbosity_of(metadata.file().unwrap_or("")));
        of_module.unwrap_or(0).max(VERBOSITY.load(Ordering::Relaxed))
    }
}

fn is_own(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("pintle")
}

/// The verbosity of events that have no field `v`.
fn verbosity_of(metadata: &Metadata<'_>) -> u32 {
    let of_level = match *metadata.level() {
        Level::ERROR | Level::WARN => return 0,
        Level::INFO => 1,
        Level::DEBUG => 2,
        Level::TRACE => 4,
    };
    if is_own(metadata) { of_level } else { of_level + OF_LIBRARIES }
}

impl Subscriber for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() {
            return false;
        }
        metadata.fields().field("v").is_some() || verbosity_of(metadata) <= Self::threshold(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let of_modules = MODULES.get().map_or(0, VModule::highest);
        Some(match of_modules.max(VERBOSITY.load(Ordering::Relaxed)) {
            // Events with a field `v` of 0 are of level `info`.
            0 | 1 => LevelFilter::INFO,
            2 | 3 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let verbosity = fields.verbosity.unwrap_or_else(|| verbosity_of(metadata));
        if verbosity > Self::threshold(metadata) {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = Line { metadata, fields: &fields, verbosity, now };
        let text = match self.format {
            Format::Text => line.add_text(),
            Format::Json => line.json(),
        };
        // An error of the log itself cannot be reported anywhere.
        _ = if self.split && *metadata.level() != Level::ERROR {
            std::io::stdout().lock().write_all(text.as_bytes())
        } else {
            std::io::stderr().lock().write_all(text.as_bytes())
        };
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
