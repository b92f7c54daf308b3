//! Spreads compact JSON over lines, as Go's `json.Indent` does.

const STEP: &[u8] = b"  ";

/// Appends `compact` (valid, without white space) with every member on a line of its own.
pub fn indent(compact: &[u8], out: &mut Vec<u8>) {
    let mut depth = 0usize;
    let mut bytes = compact.iter().copied().peekable();
    let mut in_string = false;
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            match byte {
                b'\\' => out.extend(bytes.next()),
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                let closes = bytes.peek().is_some_and(|next| matches!(next, b'}' | b']'));
                if closes {
                    out.extend(bytes.next());
                } else {
                    depth += 1;
                    break_line(depth, out);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                break_line(depth, out);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                break_line(depth, out);
            }
            b':' => out.extend_from_slice(b": "),
            b'\n' => {}
            other => out.push(other),
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
}
