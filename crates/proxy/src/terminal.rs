//! Sizes of a client's terminal: kube-apiserver reads them and sends them to the kubelet in a form of its own.

use pintle_value::{Value, json};

/// The size limit in bytes of an incomplete terminal size.
const SIZE_BYTES_MAX: usize = 1024;

/// A stream of sizes in JSON.
#[derive(Default)]
pub(crate) struct TerminalSizes {
    pending: Vec<u8>,
    /// Whether invalid input arrived. All further input is dropped.
    has_failed: bool,
}

impl TerminalSizes {
    /// Returns the sizes that are complete, for the kubelet.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in bytes {
            if self.has_failed || self.pending.is_empty() && byte.is_ascii_whitespace() {
                continue;
            }
            self.pending.push(*byte);
            // A terminal size contains no nested object, and no strings but its keys.
            match (self.pending.first(), byte) {
                (Some(b'{'), b'}') => match encode(&self.pending) {
                    Some(size) => {
                        out.extend_from_slice(size.as_bytes());
                        self.pending.clear();
                    }
                    None => self.has_failed = true,
                },
                (Some(b'{'), _) => self.has_failed = self.pending.len() > SIZE_BYTES_MAX,
                _ => self.has_failed = true,
            }
        }
        out
    }
}

/// Parses a terminal size with the keys of Go's `TerminalSize`, which match case-insensitively. Missing numbers are
/// zero.
fn encode(text: &[u8]) -> Option<String> {
    let parsed = json::parse(text).ok()?.value;
    let mut size = [0_u16; 2];
    for (key, value) in parsed.as_object()?.iter() {
        let dimension =
            [("width", 0), ("height", 1)].into_iter().find(|(name, _)| key.eq_ignore_ascii_case(name));
        let Some(slot) = dimension.and_then(|(_, place)| size.get_mut(place)) else { continue };
        if !matches!(value, Value::Null) {
            *slot = u16::try_from(value.as_int()?).ok()?;
        }
    }
    let [width, height] = size;
    Some(format!("{{\"Width\":{width},\"Height\":{height}}}\n"))
}

#[cfg(test)]
mod tests {
    use super::TerminalSizes;

    #[test]
    fn sizes_are_read_until_one_is_wrong() {
        for (sent, want) in [
            (&["{\"Width\":80,\"Height\":20}"][..], "{\"Width\":80,\"Height\":20}\n"),
            (
                &["{\"width\":1,", " \"x\":\"y\"}\n{}"],
                "{\"Width\":1,\"Height\":0}\n{\"Width\":0,\"Height\":0}\n",
            ),
            (&["no", "{}"], ""),
            (&["{\"Width\":-1}", "{}"], ""),
            (&["{\"Width\":70000}", "{}"], ""),
        ] {
            let mut sizes = TerminalSizes::default();
            let got: Vec<u8> = sent.iter().flat_map(|part| sizes.push(part.as_bytes())).collect();
            assert_eq!(String::from_utf8(got).unwrap(), want, "{sent:?}");
        }
    }
}
