//! Spreads compact JSON over lines, as Go's `json.Indent` does.

const STEP: &[u8] = b"  ";

/// Appends `compact` (valid, without white space) with every member on a line of its own.
pub fn indent(compact: &[u8], out: &mut Vec<u8>) {
    Indenter::default().feed(compact, out);
}

/// Does the same for a document that arrives in pieces.
#[derive(Default)]
pub struct Indenter {
    depth: usize,
    in_string: bool,
    /// Whether the last byte was a backslash in a string.
    is_escaped: bool,
    /// Whether the last byte opened a container, which may turn out to be empty.
    is_open: bool,
}

impl Indenter {
    /// Appends the next piece.
    pub fn feed(&mut self, compact: &[u8], out: &mut Vec<u8>) {
        for byte in compact.iter().copied() {
            if self.in_string {
                self.within_string(byte)
            } else {
                self.between(byte, out)
            }
            if self.in_string || byte != b'\n' {
                out.push(byte);
            }
            if !self.in_string {
                self.write_after(byte, out);
            }
        }
    }

    fn within_string(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    /// Writes the line break and indentation before a byte outside strings, and detects the start of a string.
    fn between(&mut self, byte: u8, out: &mut Vec<u8>) {
        let closes = matches!(byte, b'}' | b']');
        let is_first = std::mem::take(&mut self.is_open);
        if is_first && !closes {
            self.depth = self.depth.saturating_add(1);
            break_line(self.depth, out);
        } else if closes && !is_first {
            self.depth = self.depth.saturating_sub(1);
            break_line(self.depth, out);
        }
        self.in_string = byte == b'"';
    }

    fn write_after(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'{' | b'[' => self.is_open = true,
            b',' => break_line(self.depth, out),
            b':' => out.push(b' '),
            _ => {}
        }
    }
}

fn break_line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    for _ in 0..depth {
        out.extend_from_slice(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_lines_and_empty_containers_do_not() {
        let mut out = Vec::new();
        indent(br#"{"a":{},"b":[1,"x,{\"y"],"c":[]}"#, &mut out);
        let expected = "{\n  \"a\": {},\n  \"b\": [\n    1,\n    \"x,{\\\"y\"\n  ],\n  \"c\": []\n}";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn indenting_in_pieces_gives_the_same_text() {
        let compact = br#"{"a":{},"b":[1,"x,{\"y\\"],"c":[[]],"d":{"e":null}}"#;
        let mut expected = Vec::new();
        indent(compact, &mut expected);
        for size in 1..compact.len() {
            let (mut indenter, mut out) = (Indenter::default(), Vec::new());
            for piece in compact.chunks(size) {
                indenter.feed(piece, &mut out);
            }
            assert_eq!(out, expected, "{size}");
        }
    }
}
