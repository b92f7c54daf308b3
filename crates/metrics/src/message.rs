//! `/metrics` as `io.prometheus.client.MetricFamily` messages: length-delimited protobuf, and the two text notations of protobuf
//! that the client library of Prometheus offers.

use crate::quantiles::QUANTILES;
use crate::series::Series;
use crate::{Family, Samples, Type, families, go_float, selection};
use pintle_protobuf::Writer;
use std::fmt::Write;
use std::sync::PoisonError;

/// How the messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Protobuf, each message after its length.
    Delimited,
    /// Text with a line for each field.
    Text,
    /// Text with a line for each message.
    Compact,
}

/// All families of `/metrics`, one message at a time.
pub struct Messages {
    notation: Notation,
    next: usize,
}

impl Messages {
    /// Begins with the first family.
    pub fn new(notation: Notation) -> Self {
        Messages { notation, next: 0 }
    }
}

impl Iterator for Messages {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let (name, family) = families::sorted().get(self.next)?;
            self.next = self.next.saturating_add(1);
            if let Some(message) = of_family(name, family) {
                return Some(self.notation.write(message));
            }
        }
    }
}

/// The messages of `/metrics/slis`.
pub fn sli_messages(notation: Notation) -> Vec<u8> {
    let all = families::SLIS.iter().copied().chain([&families::START_TIME]);
    all.filter_map(|family| of_family(family.name, family))
        .flat_map(|message| notation.write(message))
        .collect()
}

/// A message: number, name and value of each field, in the order of their declaration.
#[derive(Default)]
struct Message(Vec<(u64, &'static str, Field)>);

enum Field {
    Text(String),
    /// A value of an enumeration.
    Name(u64, &'static str),
    Count(u64),
    Real(f64),
    /// In zigzag encoding.
    Signed(i64),
    Message(Message),
}

impl Message {
    fn with(mut self, number: u64, name: &'static str, field: Field) -> Self {
        self.push(number, name, field);
        self
    }

    fn push(&mut self, number: u64, name: &'static str, field: Field) {
        self.0.push((number, name, field));
    }
}

fn of_family(name: &str, family: &Family) -> Option<Message> {
    let metrics = metrics_of(family);
    if metrics.is_empty() || !selection::is_exported(name) {
        return None;
    }
    let type_ = match family.type_ {
        Type::Counter | Type::LateCounter | Type::ReadCounter(_) => Field::Name(0, "COUNTER"),
        Type::Gauge | Type::LateGauge | Type::Read(_) => Field::Name(1, "GAUGE"),
        Type::Summary => Field::Name(2, "SUMMARY"),
        Type::Histogram(_) => Field::Name(4, "HISTOGRAM"),
    };
    let mut message = Message::default()
        .with(1, "name", Field::Text(name.into()))
        .with(2, "help", Field::Text(family.help.into()))
        .with(3, "type", type_);
    metrics.into_iter().for_each(|metric| message.push(4, "metric", Field::Message(metric)));
    Some(message)
}

fn metrics_of(family: &Family) -> Vec<Message> {
    if let Type::Read(read) | Type::ReadCounter(read) = family.type_ {
        let mut samples = Samples::default();
        read(&mut samples);
        let value = |value| Message::default().with(1, "value", Field::Real(value));
        let (number, name) =
            if matches!(family.type_, Type::Read(_)) { (2, "gauge") } else { (3, "counter") };
        let metric =
            |(text, sample): (String, f64)| labels(&text).with(number, name, Field::Message(value(sample)));
        return samples.0.into_iter().map(metric).collect();
    }
    let all = family.series.read().unwrap_or_else(PoisonError::into_inner);
    // A family without labels exists from the start, as in the client library of Prometheus.
    let is_late = matches!(family.type_, Type::LateGauge | Type::LateCounter);
    if all.is_empty() && family.labels.is_empty() && !is_late {
        return vec![metric_of(family, "", &family.new_series())];
    }
    all.iter().map(|(text, series)| metric_of(family, text, series)).collect()
}

fn metric_of(family: &Family, text: &str, series: &Series) -> Message {
    let (number, name, value) = match family.type_ {
        Type::Histogram(bounds) => (7, "histogram", histogram_message(bounds, series)),
        Type::Summary => {
            let sum = Message::default().with(1, "sample_count", Field::Count(series.count())).with(
                2,
                "sample_sum",
                Field::Real(series.value()),
            );
            let values = QUANTILES.iter().zip(series.quantiles().unwrap_or([f64::NAN; 3]));
            let sum = values.fold(sum, |sum, (quantile, value)| {
                let entry = Message::default().with(1, "quantile", Field::Real(*quantile));
                sum.with(3, "quantile", Field::Message(entry.with(2, "value", Field::Real(value))))
            });
            (4, "summary", sum.with(4, CREATED, created_field(series)))
        }
        Type::Gauge | Type::LateGauge | Type::Read(_) => {
            (2, "gauge", Message::default().with(1, "value", Field::Real(series.value())))
        }
        Type::Counter | Type::LateCounter | Type::ReadCounter(_) => {
            #[expect(clippy::cast_precision_loss, reason = "the message has a float")]
            let value = Message::default().with(1, "value", Field::Real(series.count() as f64));
            (3, "counter", value.with(3, CREATED, created_field(series)))
        }
    };
    labels(text).with(number, name, Field::Message(value))
}

const CREATED: &str = "created_timestamp";

fn created_field(series: &Series) -> Field {
    let (seconds, nanos) = (series.created() / 1_000_000_000, series.created() % 1_000_000_000);
    let time = Message::default().with(1, "seconds", Field::Count(seconds));
    Field::Message(if nanos == 0 { time } else { time.with(2, "nanos", Field::Count(nanos)) })
}

fn histogram_message(bounds: &[f64], series: &Series) -> Message {
    let mut message = Message::default().with(1, "sample_count", Field::Count(series.count())).with(
        2,
        "sample_sum",
        Field::Real(series.value()),
    );
    let mut count = 0_u64;
    for (bound, in_bucket) in bounds.iter().zip(series.bucket_counts()) {
        count = count.saturating_add(in_bucket);
        let bucket = Message::default().with(1, "cumulative_count", Field::Count(count)).with(
            2,
            "upper_bound",
            Field::Real(*bound),
        );
        message.push(3, "bucket", Field::Message(bucket));
    }
    message.push(15, CREATED, created_field(series));
    let Some(native) = series.native() else { return message };
    let native = native.snapshot();
    message.push(5, "schema", Field::Signed(native.schema.into()));
    message.push(6, "zero_threshold", Field::Real(native.zero_threshold));
    message.push(7, "zero_count", Field::Count(native.zero));
    for (buckets, span_number, span_name, number, name) in [
        (native.negative, 9, "negative_span", 10, "negative_delta"),
        (native.positive, 12, "positive_span", 13, "positive_delta"),
    ] {
        for (offset, length) in buckets.spans {
            let span = Message::default().with(1, "offset", Field::Signed(offset.into())).with(
                2,
                "length",
                Field::Count(length.into()),
            );
            message.push(span_number, span_name, Field::Message(span));
        }
        buckets.deltas.into_iter().for_each(|delta| message.push(number, name, Field::Signed(delta)));
    }
    message
}

/// A metric with the labels of a text such as `code="200",verb="GET"`.
fn labels(text: &str) -> Message {
    let mut message = Message::default();
    let mut rest = text;
    while let Some((name, quoted)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = quoted.chars();
        loop {
            match chars.next() {
                None | Some('"') => break,
                Some('\\') => value.push(chars.next().map_or('\\', |c| if c == 'n' { '\n' } else { c })),
                Some(c) => value.push(c),
            }
        }
        let pair = Message::default().with(1, "name", Field::Text(name.trim_start_matches(',').into())).with(
            2,
            "value",
            Field::Text(value),
        );
        message.push(1, "label", Field::Message(pair));
        rest = chars.as_str();
    }
    message
}

impl Notation {
    fn write(self, message: Message) -> Vec<u8> {
        match self {
            Notation::Delimited => {
                let mut content = Writer::default();
                encode(message, &mut content);
                let mut out = Writer(Vec::with_capacity(content.0.len().saturating_add(10)));
                out.varint(u64::try_from(content.0.len()).unwrap_or(0));
                out.0.extend_from_slice(&content.0);
                out.0
            }
            Notation::Text => {
                let mut out = String::new();
                write_lines(&message, 0, &mut out);
                out.push('\n');
                out.into_bytes()
            }
            Notation::Compact => {
                let mut out = String::new();
                write_compact(&message, &mut out);
                out.push('\n');
                out.into_bytes()
            }
        }
    }
}

/// Appends the fields in the order of their numbers.
fn encode(mut message: Message, out: &mut Writer) {
    message.0.sort_by_key(|(number, ..)| *number);
    for (number, _, field) in message.0 {
        match field {
            Field::Text(text) => out.string(number, &text),
            Field::Name(value, _) | Field::Count(value) => out.int(number, value.cast_signed()),
            Field::Real(value) => out.fixed64(number, value.to_bits()),
            Field::Signed(value) => out.int(number, value << 1 ^ value >> 63),
            Field::Message(inner) => out.message(number, |out| encode(inner, out)),
        }
    }
}

fn write_lines(message: &Message, depth: usize, out: &mut String) {
    for (_, name, field) in &message.0 {
        let indent = "  ".repeat(depth);
        if let Field::Message(inner) = field {
            _ = writeln!(out, "{indent}{name}: {{");
            write_lines(inner, depth.saturating_add(1), out);
            _ = writeln!(out, "{indent}}}");
        } else {
            _ = write!(out, "{indent}{name}: ");
            write_scalar(field, out);
            out.push('\n');
        }
    }
}

fn write_compact(message: &Message, out: &mut String) {
    for (at, (_, name, field)) in message.0.iter().enumerate() {
        let separator = if at == 0 { "" } else { " " };
        _ = write!(out, "{separator}{name}:");
        if let Field::Message(inner) = field {
            out.push('{');
            write_compact(inner, out);
            out.push('}');
        } else {
            write_scalar(field, out);
        }
    }
}

fn write_scalar(field: &Field, out: &mut String) {
    _ = match field {
        Field::Text(text) => {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(out, "\"{text}\"")
        }
        Field::Name(_, name) => write!(out, "{name}"),
        Field::Count(count) => write!(out, "{count}"),
        Field::Signed(value) => write!(out, "{value}"),
        Field::Real(value) => write!(out, "{}", go_float(*value).trim_start_matches('+').to_lowercase()),
        Field::Message(_) => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_protobuf::{Field as Read, Fields};

    fn compact(family: &Family) -> String {
        String::from_utf8(Notation::Compact.write(of_family(family.name, family).unwrap())).unwrap()
    }

    #[test]
    fn families_are_messages() {
        let counter = Family::new("requests_total", Type::Counter, &["code", "verb"], "Requests.");
        assert!(of_family(counter.name, &counter).is_none());
        counter.add(&["200", "a\"b\\c\nd,e=\""], 3);
        let written = compact(&counter);
        let (before, after) = written.split_once(" created_timestamp:{seconds:").unwrap();
        assert_eq!(
            before,
            "name:\"requests_total\" help:\"Requests.\" type:COUNTER metric:{label:{name:\"code\" value:\"200\"} \
             label:{name:\"verb\" value:\"a\\\"b\\\\c\\nd,e=\\\"\"} counter:{value:3"
        );
        assert!(after.ends_with("}}}\n"), "{after}");
        let gauge = Family::new("g", Type::Gauge, &[], "Level.");
        gauge.set(&[], f64::INFINITY);
        assert_eq!(compact(&gauge), "name:\"g\" help:\"Level.\" type:GAUGE metric:{gauge:{value:inf}}\n");
        let lines = String::from_utf8(Notation::Text.write(of_family(gauge.name, &gauge).unwrap())).unwrap();
        assert!(lines.ends_with("metric: {\n  gauge: {\n    value: inf\n  }\n}\n\n"), "{lines}");
    }

    #[test]
    fn histograms_have_native_buckets_if_enabled() {
        let series = Series::new(&[1.0], true);
        for value in [1.0, 1.5, 0.0] {
            series.observe(&[1.0], value);
        }
        let mut out = String::new();
        write_compact(&histogram_message(&[1.0], &series), &mut out);
        assert!(
            out.starts_with("sample_count:3 sample_sum:2.5 bucket:{cumulative_count:2 upper_bound:1}"),
            "{out}"
        );
        let native = "schema:3 zero_threshold:2.938735877055719e-39 zero_count:1 positive_span:{offset:0 length:1} \
                      positive_span:{offset:4 length:1} positive_delta:1 positive_delta:0";
        assert!(out.ends_with(native), "{out}");
    }

    #[test]
    fn delimited_messages_are_protobuf() {
        let all: Vec<u8> = Messages::new(Notation::Delimited).flatten().collect();
        let mut rest = &all[..];
        let mut names = Vec::new();
        while !rest.is_empty() {
            // The length is a varint without a tag.
            let (mut length, mut shift) = (0_usize, 0);
            loop {
                let byte = rest[0];
                rest = &rest[1..];
                length |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let (message, after) = rest.split_at(length);
            rest = after;
            let Some(Ok((1, Read::Bytes(name)))) = Fields(message).next() else { panic!("no name") };
            assert!(Fields(message).all(|field| field.is_ok()));
            names.push(String::from_utf8(name.to_vec()).unwrap());
        }
        assert!(
            names.is_sorted() && names.iter().any(|name| name == "process_start_time_seconds"),
            "{names:?}"
        );
    }
}
