//! W3C trace context: the header `traceparent`.

/// The client's span that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    pub(crate) sampled: bool,
}

impl Parent {
    /// Parses `00-<trace>-<span>-<flags>`, all in lowercase hexadecimal digits.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let [version] = decode_hex::<1>(parts.next()?)?;
        let trace = decode_hex(parts.next()?)?;
        let span = decode_hex(parts.next()?)?;
        let [flags] = decode_hex(parts.next()?)?;
        let is_known = version != 0xff && (version > 0 || parts.next().is_none());
        let is_set = trace != [0; 16] && span != [0; 8];
        (is_known && is_set).then_some(Parent { trace, span, sampled: flags & 1 == 1 })
    }

    pub(crate) fn header(&self) -> String {
        format!("00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), u8::from(self.sampled))
    }
}

fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_small = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if text.len() != 2 * N || !text.bytes().all(is_small) {
        return None;
    }
    let mut out = [0; N];
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(out)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::Parent;

    #[test]
    fn headers_are_read_and_written() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(Parent::parse(text).map(|parent| parent.header()).as_deref(), Some(text));
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(Parent::parse(wrong), None, "{wrong}");
        }
    }
}
