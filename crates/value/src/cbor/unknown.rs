//! Finds the position of an unknown field in a document: CBOR's strict errors give the index of the map entry as it was
//! encoded.

use super::decode::{end_of, read_key_text};
use super::head::{Major, Reader};
use crate::Str;
use std::fmt::Write;

/// An array or a map around the current item.
struct Open {
    map: bool,
    left: Option<u64>,
    begin: usize,
    index: usize,
    /// The length of the path without the current item.
    path: usize,
    found: Option<usize>,
}

/// Returns the index that the error `cbor: found unknown field at map element index %d` gives for the unknown fields at
/// `paths` (`spec.containers[0].nope`). A field of an outer map comes before those of inner ones.
pub fn unknown_field_index(bytes: &[u8], paths: &[Str]) -> Option<usize> {
    let mut reader = Reader { bytes, at: 0 };
    let mut path = String::new();
    let mut open: Vec<Open> = Vec::new();
    loop {
        let begin = reader.at;
        let mut head = reader.head().ok()?;
        while head.major == Major::Tag {
            head = reader.head().ok()?;
        }
        if let Major::Array | Major::Map = head.major {
            let map = head.major == Major::Map;
            open.push(Open { map, left: head.length(), begin, index: 0, path: path.len(), found: None });
        } else {
            reader.at = end_of(bytes, begin);
        }
        loop {
            let container = open.last_mut()?;
            let ends = match &mut container.left {
                Some(0) => true,
                Some(left) => {
                    *left = left.saturating_sub(1);
                    false
                }
                None => reader.take_break(),
            };
            if ends {
                let found = open.pop()?.found;
                match open.last_mut() {
                    Some(outer) => outer.found = outer.found.or(found),
                    None => return found,
                }
                continue;
            }
            path.truncate(container.path);
            let index = container.index;
            container.index = container.index.saturating_add(1);
            if !container.map {
                write!(path, "[{index}]").ok()?;
                break;
            }
            let Some(key) = read_key_text(&mut reader) else {
                reader.at = end_of(bytes, reader.at);
                continue;
            };
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&key);
            if paths.iter().any(|unknown| *unknown == path) {
                container.found = Some(index);
                container.left = Some(0);
                reader.at = end_of(bytes, container.begin);
                continue;
            }
            break;
        }
    }
}
