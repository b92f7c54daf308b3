//! The JSON parser: one pass over the bytes without recursion, so that depth takes heap and not the thread's stack.

use super::{ParseError, Parsed, duplicates, lex::Lexer};
use crate::{Map, Str, Value};

/// How deep arrays and objects may nest, as in Go.
pub const DEPTH_MAX: usize = 10_000;

/// How many members the open objects of a common input have together at most.
const ENTRIES_EXPECTED: usize = 32;

/// Reads the whole input as one value.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    match parse_unbounded(bytes)? {
        (_, Some(out_of_range)) => Err(out_of_range),
        (parsed, None) => Ok(parsed),
    }
}

/// [`parse`], but a number out of range becomes infinity, and its error is returned beside the tree: the caller's message
/// depends on the type of the field.
pub fn parse_unbounded(bytes: &[u8]) -> Result<(Parsed, Option<ParseError>), ParseError> {
    let mut entries = Vec::with_capacity(ENTRIES_EXPECTED);
    // The vectors start with a dummy entry: `split_off(0)` would take the whole vector with its capacity.
    entries.push((Str::default(), Value::Null));
    let open = Vec::with_capacity(32);
    let mut parser =
        Parser { lexer: Lexer::new(bytes), open, items: vec![Value::Null], entries, repeats: false };
    let value = parser.parse_document()?;
    let duplicates = if parser.repeats { duplicates::find(bytes) } else { Vec::new() };
    Ok((Parsed { value, duplicates }, parser.lexer.out_of_range.take()))
}

/// An open container: the index of its first member on the shared stack.
#[derive(Clone, Copy)]
enum Open {
    Array(usize),
    Object(usize),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    open: Vec<Open>,
    /// Items of all open arrays; members of all open objects. Shared, so that each closed container is one
    /// allocation of the right size. The last entry of an open object awaits its value.
    items: Vec<Value>,
    entries: Vec<(Str, Value)>,
    /// Whether some object had a repeated key: then a second pass finds the paths.
    repeats: bool,
}

impl Parser<'_> {
    fn parse_document(&mut self) -> Result<Value, ParseError> {
        loop {
            let Some(value) = self.value()? else { continue };
            if let Some(root) = self.attach(value)? {
                return self.end(root);
            }
        }
    }

    /// Takes a value, or opens a container and stops before its first member.
    #[inline]
    fn value(&mut self) -> Result<Option<Value>, ParseError> {
        let value = match self.lexer.peek_token() {
            Some(b'"') => Value::String(self.lexer.string()?),
            Some(b'{') => return self.open_object(),
            Some(b'[') => return self.open_array(),
            Some(b'0'..=b'9' | b'-') => self.lexer.number()?,
            Some(b't') => self.lexer.word("true", Value::Bool(true))?,
            Some(b'f') => self.lexer.word("false", Value::Bool(false))?,
            Some(b'n') => self.lexer.word("null", Value::Null)?,
            _ => return Err(self.lexer.unexpected("looking for beginning of value")),
        };
        Ok(Some(value))
    }

    fn open_object(&mut self) -> Result<Option<Value>, ParseError> {
        self.enter_container(Open::Object(self.entries.len()))?;
        if self.lexer.peek_token() == Some(b'}') {
            self.lexer.advance(1);
            self.open.pop();
            return Ok(Some(Value::object()));
        }
        self.key()?;
        Ok(None)
    }

    fn open_array(&mut self) -> Result<Option<Value>, ParseError> {
        self.enter_container(Open::Array(self.items.len()))?;
        if self.lexer.peek_token() == Some(b']') {
            self.lexer.advance(1);
            self.open.pop();
            return Ok(Some(Value::Array(Vec::new())));
        }
        Ok(None)
    }

    fn enter_container(&mut self, container: Open) -> Result<(), ParseError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(self.lexer.unexpected("exceeded max depth"));
        }
        self.lexer.advance(1);
        self.open.push(container);
        Ok(())
    }

    /// Takes a key and its colon. The entry is completed by its value.
    #[inline]
    fn key(&mut self) -> Result<(), ParseError> {
        if self.lexer.peek_token() != Some(b'"') {
            return Err(self.lexer.unexpected("looking for beginning of object key string"));
        }
        let key = self.lexer.string()?;
        if self.lexer.peek_token() != Some(b':') {
            return Err(self.lexer.unexpected("after object key"));
        }
        self.lexer.advance(1);
        self.entries.push((key, Value::Null));
        Ok(())
    }

    /// Adds a finished value to its container and closes every container that ends after it. Returns the root once it is
    /// finished.
    #[inline]
    fn attach(&mut self, mut value: Value) -> Result<Option<Value>, ParseError> {
        loop {
            match self.open.last().copied() {
                None => return Ok(Some(value)),
                Some(Open::Object(start)) => {
                    if let Some(entry) = self.entries.last_mut() {
                        entry.1 = value;
                    }
                    match self.lexer.peek_token() {
                        Some(b',') => {
                            self.lexer.advance(1);
                            self.key()?;
                            return Ok(None);
                        }
                        Some(b'}') => value = self.close_object(start),
                        _ => return Err(self.lexer.unexpected("after object key:value pair")),
                    }
                }
                Some(Open::Array(start)) => {
                    self.items.push(value);
                    match self.lexer.peek_token() {
                        Some(b',') => {
                            self.lexer.advance(1);
                            return Ok(None);
                        }
                        Some(b']') => value = Value::Array(self.items.split_off(start)),
                        _ => return Err(self.lexer.unexpected("after array element")),
                    }
                }
            }
            self.lexer.advance(1);
            self.open.pop();
        }
    }

    fn close_object(&mut self, start: usize) -> Value {
        let (map, repeated) = Map::from_entries(self.entries.split_off(start));
        self.repeats |= !repeated.is_empty();
        Value::Object(map)
    }

    fn end(&mut self, root: Value) -> Result<Value, ParseError> {
        if self.lexer.peek_token().is_some() {
            return Err(self.lexer.unexpected("after top-level value"));
        }
        Ok(root)
    }
}
