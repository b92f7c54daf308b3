//! A small document whose members retain their order.

use pintle_value::{Map, Value, json};

/// One node of a document.
pub(crate) enum Node {
    /// `null`.
    Null,
    /// Text.
    Text(String),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<Node>),
    /// Members in the order in which they are written.
    Object(Vec<(&'static str, Node)>),
}

impl Node {
    /// Text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Node::Text(text.into())
    }

    /// A list of texts.
    pub(crate) fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Self {
        Node::List(items.into_iter().map(|t| Node::text(t.as_ref())).collect())
    }

    /// Prints JSON: on one line with a line feed, or indented by two spaces.
    pub(crate) fn to_json(&self, pretty: bool) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out, pretty, 0);
        out
    }

    /// Converts to a tree, whose members are sorted.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Text(text) => text.as_str().into(),
            Node::Bool(b) => (*b).into(),
            Node::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Node::Object(members) => members.iter().map(|(k, v)| (*k, v.to_value())).collect::<Map>().into(),
        }
    }

    fn write(&self, out: &mut Vec<u8>, pretty: bool, depth: usize) {
        match self {
            Node::Null => out.extend_from_slice(b"null"),
            Node::Text(text) => json::write_string(text, out),
            Node::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
            Node::List(items) => {
                let write = |item: &Node, out: &mut Vec<u8>| item.write(out, pretty, depth.saturating_add(1));
                write_enclosed(out, (b'[', b']'), pretty, depth, items, write);
            }
            Node::Object(members) => {
                let write = |(key, value): &(&str, Node), out: &mut Vec<u8>| {
                    json::write_string(key, out);
                    out.extend_from_slice(if pretty { b": " } else { b":" });
                    value.write(out, pretty, depth.saturating_add(1));
                };
                write_enclosed(out, (b'{', b'}'), pretty, depth, members, write);
            }
        }
    }
}

fn write_enclosed<T>(
    out: &mut Vec<u8>,
    brackets: (u8, u8),
    pretty: bool,
    depth: usize,
    items: &[T],
    write: impl Fn(&T, &mut Vec<u8>),
) {
    let line = |out: &mut Vec<u8>, depth: usize| {
        if pretty {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b' ', depth.saturating_mul(2)));
        }
    };
    out.push(brackets.0);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        line(out, depth.saturating_add(1));
        write(item, out);
    }
    if !items.is_empty() {
        line(out, depth);
    }
    out.push(brackets.1);
}
