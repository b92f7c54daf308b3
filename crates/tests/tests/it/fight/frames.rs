//! HTTP/2 frames as bytes, because no client library sends invalid ones.

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Appends a frame.
pub(crate) fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The preface and empty settings.
pub(crate) fn opening() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    push_frame(&mut out, SETTINGS, 0, 0, &[]);
    out
}

/// The header block of `GET path`, without Huffman codes and without entries in the dynamic table.
pub(crate) fn get_block(path: &str) -> Vec<u8> {
    // Indexed fields of the static table: `:method: GET`, `:scheme: https`.
    let mut block = vec![0x82, 0x87];
    push_literal(&mut block, 0x04, path);
    push_literal(&mut block, 0x01, "localhost");
    block
}

/// A literal without indexing whose name is an entry of the static table.
fn push_literal(block: &mut Vec<u8>, name_index: u8, value: &str) {
    block.push(name_index);
    push_text(block, value.as_bytes());
}

/// A string without Huffman codes.
pub(crate) fn push_text(block: &mut Vec<u8>, text: &[u8]) {
    push_length(block, text.len());
    block.extend_from_slice(text);
}

fn push_length(block: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 127 => block.push(short),
        _ => {
            block.push(127);
            let mut rest = length - 127;
            while rest >= 128 {
                block.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            block.push(rest as u8);
        }
    }
}

/// A block that adds `cookie: <value>` to the dynamic table (entry 62) and repeats it `times` by a byte each.
pub(crate) fn cookie_bomb(value: &str, times: usize) -> Vec<u8> {
    let mut block = get_block("/livez");
    // `cookie` is entry 32: a literal with incremental indexing.
    block.push(0x40 | 32);
    push_text(&mut block, value.as_bytes());
    block.extend(std::iter::repeat_n(0x80 | 62, times));
    block
}
