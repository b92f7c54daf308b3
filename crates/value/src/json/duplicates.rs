//! Finds the paths of repeated keys in well-formed JSON. Called only if there are any.

use super::lex::Lexer;
use crate::{Str, parsed::DUPLICATES_MAX};
use std::collections::HashSet;
use std::fmt::Write;

/// A container around the current value.
enum Open {
    Array { index: usize },
    Object { seen: HashSet<Str>, key: Str },
}

/// The full paths of the keys that come more than once, in order of appearance.
pub(super) fn find(bytes: &[u8]) -> Vec<Str> {
    let mut lexer = Lexer::new(bytes);
    let mut open: Vec<Open> = Vec::new();
    let mut found: Vec<Str> = Vec::new();
    // A string is a key if an object expects one.
    let mut key_due = false;
    while let Some(byte) = lexer.peek_token() {
        match byte {
            b'"' => {
                let Ok(text) = lexer.string() else { return found };
                if key_due {
                    note_key(&mut open, text, &mut found);
                    key_due = false;
                }
                continue;
            }
            b'{' => {
                open.push(Open::Object { seen: HashSet::new(), key: Str::default() });
                key_due = true;
            }
            b'[' => open.push(Open::Array { index: 0 }),
            b'}' | b']' => {
                open.pop();
                key_due = false;
            }
            b',' => match open.last_mut() {
                Some(Open::Array { index }) => *index = index.saturating_add(1),
                _ => key_due = true,
            },
            _ => {}
        }
        lexer.advance(1);
    }
    found
}

fn note_key(open: &mut [Open], name: Str, found: &mut Vec<Str>) {
    let repeated = match open.last_mut() {
        Some(Open::Object { seen, key }) => {
            *key = name.clone();
            !seen.insert(name)
        }
        _ => false,
    };
    if repeated && found.len() < DUPLICATES_MAX {
        let path = path_of(open);
        if !found.contains(&path) {
            found.push(path);
        }
    }
}

fn path_of(open: &[Open]) -> Str {
    let mut out = Str::default();
    for (depth, container) in open.iter().enumerate() {
        match container {
            Open::Array { index } => {
                let _ = write!(out, "[{index}]");
            }
            Open::Object { key, .. } => {
                if depth > 0 {
                    out.push('.');
                }
                out.push_str(key);
            }
        }
    }
    out
}
