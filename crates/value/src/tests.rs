//! Tests of all codecs: written values can be read back, no input makes a reader panic, and a benchmark.

use crate::{Map, Str, Value, cbor, json, yaml};

/// A small generator of random numbers (xorshift), so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn text(&mut self) -> Str {
        const PIECES: &[&str] = &[
            "a",
            "Zz",
            "0",
            "12",
            "-",
            ".",
            ":",
            ": ",
            " ",
            "  ",
            "\n",
            "#",
            " #",
            "'",
            "\"",
            "\\",
            "\t",
            "\r",
            "~",
            "no",
            "null",
            "{",
            "}",
            "[",
            ",",
            "&",
            "*",
            "!",
            "|",
            ">",
            "%",
            "@",
            "`",
            "?",
            "<< ",
            "---",
            "é",
            "\u{1f600}",
            "\u{2028}",
            "\u{a0}",
            "\u{1}",
            "\u{7f}",
            "\u{feff}",
            "word word word word word",
            "0x1F",
            "1e3",
            "=",
        ];
        (0..self.below(7)).map(|_| self.pick(PIECES)).collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::Int(self.pick(&[0, 1, -1, 23, 24, 70_000, i64::MAX, i64::MIN])),
            3 => Value::Int(self.next() as i64 >> self.below(64)),
            4 => Value::Float(self.pick(&[
                0.5,
                -1.25,
                0.1,
                1e21,
                1e-7,
                1_234_567.5,
                65504.5,
                f64::MIN_POSITIVE,
            ])),
            5 => Value::String(self.text()),
            6 => Value::Array((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => Value::Object(
                (0..self.below(5)).map(|_| (self.text(), self.value(depth - 1))).collect::<Map>(),
            ),
        }
    }
}

/// Measures the codecs with a Pod of about 31 KB: `cargo test --release -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures time"]
fn speed() {
    let container = r#"{"name":"app","image":"registry.example.com/team/application:v1.2.3","command":["/bin/app","--serve"],
        "env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},{"name":"LEVEL","value":"debug"}],
        "resources":{"limits":{"cpu":"500m","memory":"128Mi"},"requests":{"cpu":"250m","memory":"64Mi"}},
        "volumeMounts":[{"name":"config","mountPath":"/etc/config","readOnly":true}],"ports":[{"containerPort":8080,"protocol":"TCP"}],
        "livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"periodSeconds":10,"failureThreshold":3}}"#;
    let containers = vec![container; 42].join(",");
    let pod = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","labels":{{"app":"x"}}}},"spec":{{"containers":[{containers}]}}}}"#
    );
    let value = json::parse(pod.as_bytes()).unwrap().value;
    let [json, yaml, cbor] = [json::print, yaml::print, cbor::encode].map(|print| print_with(print, &value));
    let measure = |name: &str, size: usize, step: &dyn Fn()| {
        let once = |_| {
            let start = std::time::Instant::now();
            (0..20).for_each(|_| step());
            start.elapsed() / 20
        };
        println!("{name}: {size} bytes in {:?}", (0..20).map(once).min().unwrap());
    };
    measure("json parse", json.len(), &|| drop(json::parse(&json).unwrap()));
    measure("json print", json.len(), &|| drop(print_with(json::print, &value)));
    measure("yaml parse", yaml.len(), &|| drop(yaml::parse(&yaml).unwrap()));
    measure("yaml print", yaml.len(), &|| drop(print_with(yaml::print, &value)));
    measure("cbor decode", cbor.len(), &|| drop(cbor::decode(&cbor).unwrap()));
    measure("cbor encode", cbor.len(), &|| drop(print_with(cbor::encode, &value)));
}

fn print_with(print: fn(&Value, &mut Vec<u8>), value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    print(value, &mut out);
    out
}

#[test]
fn written_values_can_be_read_back() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..3000 {
        let value = random.value(4);
        for print in [json::print, json::print_pretty] {
            let text = print_with(print, &value);
            assert_eq!(json::parse(&text).unwrap().value, value, "round {round}");
        }
        assert_eq!(cbor::decode(&print_with(cbor::encode, &value)).unwrap(), value, "round {round}");
        // JSON is a subset of YAML, except for some escapes and for integers beyond the precision of a float.
        let text = print_with(json::print, &value);
        if let Ok(parsed) = yaml::parse(&text) {
            assert_eq!(as_json_reads(&parsed.value), as_json_reads(&value), "round {round}");
        }
        let text = print_with(yaml::print, &value);
        let parsed =
            yaml::parse(&text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
        assert_eq!(parsed.value, value, "round {round}: {}", String::from_utf8_lossy(&text));
    }
}

/// The value after a round trip through JSON, where whole floats become integers.
fn as_json_reads(value: &Value) -> Value {
    json::parse(&print_with(json::print, value)).unwrap().value
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..3000 {
        let value = random.value(4);
        for print in [json::print, yaml::print, cbor::encode] {
            let mut bytes = print_with(print, &value);
            for _ in 0..=random.below(4) {
                mutate(&mut bytes, &mut random);
            }
            read_all(&bytes);
        }
        let noise: Vec<u8> = (0..random.below(64)).map(|_| random.next() as u8).collect();
        read_all(&noise);
        let text: Vec<u8> =
            (0..random.below(24)).map(|_| random.pick(b"[]{}:,-?&*!|>'\"%@`#ab01 \n\t\\<.~")).collect();
        read_all(&text);
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    match random.below(3) {
        0 => bytes.insert(at, random.pick(b"\"\\{}[]:,-? \n'&*!|>#\xff\x80\x00\x9f\xbf\xd9a0")),
        1 if at < bytes.len() => bytes[at] = random.next() as u8,
        _ => bytes.truncate(at),
    }
}

/// Every value that can be read can be written.
fn read_all(bytes: &[u8]) {
    let read = [
        json::parse(bytes).ok().map(|parsed| parsed.value),
        yaml::parse(bytes).ok().map(|parsed| parsed.value),
        cbor::decode(bytes).ok(),
    ];
    for value in read.iter().flatten() {
        for print in [json::print, json::print_pretty, yaml::print, cbor::encode] {
            print_with(print, value);
        }
    }
}
