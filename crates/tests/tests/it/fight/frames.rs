//! HTTP/2 frames as bytes, because no client library sends invalid ones.

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Appends a frame.
pub(super) fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The preface and empty settings.
pub(super) fn opening() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    push_frame(&mut out, SETTINGS, 0, 0, &[]);
    out
}

/// The header block of `GET path`, without Huffman codes and without entries in the dynamic table.
pub(super) fn get_block(path: &str) -> Vec<u8> {
    // Indexed fields of the static table: `:method: GET`, `:scheme: https`.
    let mut block = vec![0x82, 0x87];
    push_literal(&mut block, 0x04, path);
    push_literal(&mut block, 0x01, "localhost");
    block
}

/// A literal without indexing whose name is an entry of the static table.
fn push_literal(block: &mut Vec<u8>, name_index: u8, value: &str) {
    block.push(name_index);
    push_length(block, value.len());
    block.extend_from_slice(value.as_bytes());
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
pub(super) fn cookie_bomb(value: &str, times: usize) -> Vec<u8> {
    let mut block = get_block("/livez");
    // `cookie` is entry 32: a literal with incremental indexing.
    block.push(0x40 | 32);
    push_length(&mut block, value.len());
    block.extend_from_slice(value.as_bytes());
    block.extend(std::iter::repeat_n(0x80 | 62, times));
    block
}
