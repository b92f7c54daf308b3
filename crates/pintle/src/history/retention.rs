//! `--history-retention`: how long old versions of objects are retained, and how many bytes of them.

use pintle_meta::duration::GoDuration;
use pintle_meta::quantity::Quantity;
use pintle_store::HistoryRetention;
use std::time::Duration;

/// The defaults for the parts that the flag omits.
const DEFAULT: HistoryRetention = HistoryRetention { time: Duration::from_secs(24 * 3600), bytes: 256 << 20 };

/// Parses a duration, a number of bytes, or both; `0` disables retention.
pub(crate) fn parse(items: &[String]) -> Result<HistoryRetention, String> {
    let mut retention = DEFAULT;
    for item in items {
        if let Ok(GoDuration(nanos)) = GoDuration::parse(item) {
            retention.time = Duration::from_nanos(u64::try_from(nanos).map_err(|_| refuse(item))?);
        } else {
            let quantity = Quantity::parse(item).map_err(|_| refuse(item))?;
            retention.bytes = u64::try_from(quantity.value()).map_err(|_| refuse(item))?;
        }
    }
    Ok(retention)
}

fn refuse(item: &str) -> String {
    format!("--history-retention: {item:?} is no duration such as 24h and no size such as 256Mi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        let parsed = |text: &str| {
            let items: Vec<String> = text.split(',').map(str::to_string).collect();
            parse(&items).ok().map(|retention| (retention.time.as_secs(), retention.bytes))
        };
        for (text, want) in [
            ("24h,256Mi", Some((86_400, 256 << 20))),
            ("10m", Some((600, 256 << 20))),
            ("1Gi", Some((86_400, 1 << 30))),
            ("0", Some((0, 256 << 20))),
            ("-1h", None),
            ("soon", None),
        ] {
            assert_eq!(parsed(text), want, "{text}");
        }
    }
}
