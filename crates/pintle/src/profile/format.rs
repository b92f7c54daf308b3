//! pprof's `profile.proto`, written by hand: samples with stacks of function names.

use flate2::Compression;
use flate2::write::GzEncoder;
use pintle_protobuf::Writer;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A value's type and unit.
type ValueType = (&'static str, &'static str);

/// A profile.
pub(super) struct Profile {
    values: Vec<ValueType>,
    /// The unit that samples are taken by, and how much of it is between two samples.
    pub(super) period: Option<(ValueType, i64)>,
    pub(super) duration: Duration,
    strings: Vec<String>,
    ids: BTreeMap<String, i64>,
    functions: BTreeMap<i64, i64>,
    samples: BTreeMap<Vec<i64>, Vec<i64>>,
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
        let locations: Vec<i64> = stack.iter().map(|name| self.function(name)).collect();
        let sums = self.samples.entry(locations).or_insert_with(|| vec![0; values.len()]);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
    }

    /// Encodes the profile as a gzipped message.
    pub(super) fn encode(mut self) -> Vec<u8> {
        let mut out = Writer::default();
        for value in self.values.clone() {
            self.value_type(1, value, &mut out);
        }
        for (locations, values) in &self.samples {
            out.message(2, |sample| {
                locations.iter().for_each(|id| sample.int(1, *id));
                values.iter().for_each(|value| sample.int(2, *value));
            });
        }
        for (name, id) in &self.functions {
            out.message(4, |location| {
                location.int(1, *id);
                location.message(4, |line| line.int(1, *id));
            });
            out.message(5, |function| {
                function.int(1, *id);
                function.int(2, *name);
            });
        }
        if let Some((kind, each)) = self.period {
            self.value_type(11, kind, &mut out);
            out.int(12, each);
        }
        for text in &self.strings {
            out.string(6, text);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        out.int(9, i64::try_from(now.as_nanos()).unwrap_or(0));
        out.int(10, i64::try_from(self.duration.as_nanos()).unwrap_or(0));
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory does not fail.
        _ = gzip.write_all(&out.0);
        gzip.finish().unwrap_or_default()
    }

    fn value_type(&mut self, field: u64, (kind, unit): ValueType, out: &mut Writer) {
        let (kind, unit) = (self.string(kind), self.string(unit));
        out.message(field, |out| {
            out.int(1, kind);
            out.int(2, unit);
        });
    }

    /// Returns the number of a string in the string table.
    fn string(&mut self, text: &str) -> i64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = i64::try_from(self.strings.len()).unwrap_or(0);
        self.strings.push(text.to_string());
        self.ids.insert(text.to_string(), id);
        id
    }

    /// Returns the number of a function, which is also the number of its location.
    fn function(&mut self, name: &str) -> i64 {
        let name = self.string(name);
        let next = i64::try_from(self.functions.len()).unwrap_or(0).saturating_add(1);
        *self.functions.entry(name).or_insert(next)
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
