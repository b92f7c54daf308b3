//! pprof's `profile.proto`, written by hand: samples with stacks of function names.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A value's type and unit.
type ValueType = (&'static str, &'static str);

/// A profile.
pub(super) struct Profile {
    values: Vec<ValueType>,
    /// What the values are sampled by, and how much is between two samples.
    pub(super) period: Option<(ValueType, i64)>,
    pub(super) duration: Duration,
    strings: Vec<String>,
    ids: BTreeMap<String, u64>,
    functions: BTreeMap<u64, u64>,
    samples: BTreeMap<Vec<u64>, Vec<i64>>,
}

impl Profile {
    /// A profile whose samples have these values.
    pub(super) fn new(values: &[ValueType]) -> Self {
        let mut profile = Profile {
            values: values.to_vec(),
            period: None,
            duration: Duration::ZERO,
            strings: Vec::new(),
            ids: BTreeMap::new(),
            functions: BTreeMap::new(),
            samples: BTreeMap::new(),
        };
        // The first string is the empty one.
        profile.string("");
        profile
    }

    /// Adds a sample; the stack begins with the innermost function.
    pub(super) fn add(&mut self, stack: &[String], values: &[i64]) {
        let locations: Vec<u64> = stack.iter().map(|name| self.function(name)).collect();
        let sums = self.samples.entry(locations).or_insert_with(|| vec![0; values.len()]);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
    }

    /// The gzipped message.
    pub(super) fn encode(mut self) -> Vec<u8> {
        let mut out = Message::default();
        for (kind, unit) in self.values.clone() {
            let value = self.value_type(kind, unit);
            out.message(1, &value);
        }
        for (locations, values) in &self.samples {
            let mut sample = Message::default();
            locations.iter().for_each(|id| sample.number(1, *id));
            values.iter().for_each(|value| sample.number(2, u64::try_from(*value).unwrap_or(0)));
            out.message(2, &sample);
        }
        for (name, id) in &self.functions {
            let mut line = Message::default();
            line.number(1, *id);
            let mut location = Message::default();
            location.number(1, *id);
            location.message(4, &line);
            out.message(4, &location);
            let mut function = Message::default();
            function.number(1, *id);
            function.number(2, *name);
            out.message(5, &function);
        }
        let period = self.period.map(|((kind, unit), each)| (self.value_type(kind, unit), each));
        for text in &self.strings {
            out.bytes(6, text.as_bytes());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        out.number(9, u64::try_from(now.as_nanos()).unwrap_or(0));
        out.number(10, u64::try_from(self.duration.as_nanos()).unwrap_or(0));
        if let Some((kind, each)) = period {
            out.message(11, &kind);
            out.number(12, u64::try_from(each).unwrap_or(0));
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory does not fail.
        _ = gzip.write_all(&out.0);
        gzip.finish().unwrap_or_default()
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        let (kind, unit) = (self.string(kind), self.string(unit));
        let mut out = Message::default();
        out.number(1, kind);
        out.number(2, unit);
        out
    }

    /// The number of a string.
    fn string(&mut self, text: &str) -> u64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = u64::try_from(self.strings.len()).unwrap_or(0);
        self.strings.push(text.to_string());
        self.ids.insert(text.to_string(), id);
        id
    }

    /// The number of a function, which is also that of its location.
    fn function(&mut self, name: &str) -> u64 {
        let name = self.string(name);
        let next = u64::try_from(self.functions.len()).unwrap_or(0) + 1;
        *self.functions.entry(name).or_insert(next)
    }
}

/// A message of protobuf.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or(0));
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn equal_stacks_are_one_sample() {
        let mut profile = Profile::new(&[("samples", "count")]);
        for _ in 0..3 {
            profile.add(&["leaf".into(), "root".into()], &[1]);
        }
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*profile.encode()).read_to_end(&mut plain).unwrap();
        // One sample: locations 1 and 2, value 3.
        let sample = [0x12, 6, 0x08, 1, 0x08, 2, 0x10, 3];
        assert!(plain.windows(sample.len()).any(|window| window == sample), "{plain:?}");
        assert!(plain.windows(4).any(|window| window == b"leaf"));
    }
}
