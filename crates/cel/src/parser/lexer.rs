//! From text to tokens: the longest match wins; unrecognized text is reported with ANTLR's message and skipped.

use std::fmt;

/// Kinds of tokens, in the order in which messages list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    End,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

impl Kind {
    /// All kinds of tokens, in order.
    pub(super) const ALL: [Kind; 36] = [
        Kind::End,
        Kind::Equals,
        Kind::NotEquals,
        Kind::In,
        Kind::Less,
        Kind::LessEquals,
        Kind::GreaterEquals,
        Kind::Greater,
        Kind::And,
        Kind::Or,
        Kind::LeftBracket,
        Kind::RightBracket,
        Kind::LeftBrace,
        Kind::RightBrace,
        Kind::LeftParen,
        Kind::RightParen,
        Kind::Dot,
        Kind::Comma,
        Kind::Minus,
        Kind::Not,
        Kind::Question,
        Kind::Colon,
        Kind::Plus,
        Kind::Star,
        Kind::Slash,
        Kind::Percent,
        Kind::True,
        Kind::False,
        Kind::Null,
        Kind::Float,
        Kind::Int,
        Kind::Uint,
        Kind::String,
        Kind::Bytes,
        Kind::Ident,
        Kind::EscapedIdent,
    ];
}

/// The names in messages.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::End => "<EOF>",
            Kind::Equals => "'=='",
            Kind::NotEquals => "'!='",
            Kind::In => "'in'",
            Kind::Less => "'<'",
            Kind::LessEquals => "'<='",
            Kind::GreaterEquals => "'>='",
            Kind::Greater => "'>'",
            Kind::And => "'&&'",
            Kind::Or => "'||'",
            Kind::LeftBracket => "'['",
            Kind::RightBracket => "']'",
            Kind::LeftBrace => "'{'",
            Kind::RightBrace => "'}'",
            Kind::LeftParen => "'('",
            Kind::RightParen => "')'",
            Kind::Dot => "'.'",
            Kind::Comma => "','",
            Kind::Minus => "'-'",
            Kind::Not => "'!'",
            Kind::Question => "'?'",
            Kind::Colon => "':'",
            Kind::Plus => "'+'",
            Kind::Star => "'*'",
            Kind::Slash => "'/'",
            Kind::Percent => "'%'",
            Kind::True => "'true'",
            Kind::False => "'false'",
            Kind::Null => "'null'",
            Kind::Float => "NUM_FLOAT",
            Kind::Int => "NUM_INT",
            Kind::Uint => "NUM_UINT",
            Kind::String => "STRING",
            Kind::Bytes => "BYTES",
            Kind::Ident => "IDENTIFIER",
            Kind::EscapedIdent => "ESC_IDENTIFIER",
        })
    }
}

/// A token and its position: bytes `start..end` of the text, `offset` in code points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) offset: u32,
}

impl Token {
    pub(super) fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// A part of the text that is not a token.
#[derive(Clone, Debug)]
pub(super) struct Unrecognized {
    pub(super) offset: u32,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Tokens, ending with `End`.
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    pub(super) unrecognized: Vec<Unrecognized>,
}

pub(super) fn lex(text: &str) -> Lexed {
    let bytes = text.as_bytes();
    let mut tokens = Vec::with_capacity((bytes.len() / 3).saturating_add(2));
    let mut unrecognized = Vec::new();
    let (mut at, mut offset) = (0, 0u32);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match scan(rest) {
            Scan::Hidden(length) => length,
            Scan::Token(kind, length) => {
                tokens.push(Token { kind, start: at, end: at.saturating_add(length), offset });
                length
            }
            // The character at which the match failed is part of the error and is skipped too.
            Scan::Failed(good) => {
                let failed = text
                    .get(at.saturating_add(good)..)
                    .and_then(|rest| rest.chars().next())
                    .map_or(0, char::len_utf8);
                let length = good.saturating_add(failed);
                unrecognized.push(Unrecognized { offset, start: at, end: at.saturating_add(length) });
                length
            }
        };
        offset =
            offset.saturating_add(count_chars(bytes.get(at..at.saturating_add(length)).unwrap_or_default()));
        at = at.saturating_add(length);
    }
    tokens.push(Token { kind: Kind::End, start: at, end: at, offset });
    Lexed { tokens, unrecognized }
}

fn count_chars(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.iter().filter(|byte| (**byte & 0xC0) != 0x80).count()).unwrap_or(u32::MAX)
}

enum Scan {
    Hidden(usize),
    Token(Kind, usize),
    /// This many bytes could begin a token.
    Failed(usize),
}

/// The token at the start of `rest`, which must not be empty.
fn scan(rest: &[u8]) -> Scan {
    let first = rest.first().copied().unwrap_or_default();
    let second = rest.get(1).copied();
    let one = |kind| Scan::Token(kind, 1);
    let either = |next, long, short| {
        if second == Some(next) { Scan::Token(long, 2) } else { Scan::Token(short, 1) }
    };
    let both = |next, kind| if second == Some(next) { Scan::Token(kind, 2) } else { Scan::Failed(1) };
    match first {
        b' ' | b'\t' | b'\r' | b'\n' | 0x0C => {
            Scan::Hidden(run(rest, 0, |byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0C)))
        }
        b'/' if second == Some(b'/') => Scan::Hidden(run(rest, 0, |byte| byte != b'\n')),
        b'=' => both(b'=', Kind::Equals),
        b'&' => both(b'&', Kind::And),
        b'|' => both(b'|', Kind::Or),
        b'!' => either(b'=', Kind::NotEquals, Kind::Not),
        b'<' => either(b'=', Kind::LessEquals, Kind::Less),
        b'>' => either(b'=', Kind::GreaterEquals, Kind::Greater),
        b'[' => one(Kind::LeftBracket),
        b']' => one(Kind::RightBracket),
        b'{' => one(Kind::LeftBrace),
        b'}' => one(Kind::RightBrace),
        b'(' => one(Kind::LeftParen),
        b')' => one(Kind::RightParen),
        b'.' if second.is_some_and(|byte| byte.is_ascii_digit()) => {
            let digits = run(rest, 1, |byte| byte.is_ascii_digit());
            Scan::Token(Kind::Float, exponent(rest, digits).unwrap_or(digits))
        }
        b'.' => one(Kind::Dot),
        b',' => one(Kind::Comma),
        b'-' => one(Kind::Minus),
        b'?' => one(Kind::Question),
        b':' => one(Kind::Colon),
        b'+' => one(Kind::Plus),
        b'*' => one(Kind::Star),
        b'/' => one(Kind::Slash),
        b'%' => one(Kind::Percent),
        b'0'..=b'9' => scan_number(rest),
        b'"' | b'\'' => match string(rest) {
            Ok(length) => Scan::Token(Kind::String, length),
            Err(good) => Scan::Failed(good),
        },
        b'`' => escaped_identifier(rest),
        b'A'..=b'Z' | b'a'..=b'z' | b'_' => word(rest),
        _ => Scan::Failed(0),
    }
}

/// The end of the bytes from `from` on that `belongs` accepts.
fn run(rest: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let tail = rest.get(from..).unwrap_or_default();
    from.saturating_add(tail.iter().position(|byte| !belongs(*byte)).unwrap_or(tail.len()))
}

fn scan_number(rest: &[u8]) -> Scan {
    let unsigned = |end: usize| match rest.get(end) {
        Some(b'u' | b'U') => Scan::Token(Kind::Uint, end.saturating_add(1)),
        _ => Scan::Token(Kind::Int, end),
    };
    if rest.starts_with(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        return unsigned(run(rest, 2, |byte| byte.is_ascii_hexdigit()));
    }
    let digits = run(rest, 0, |byte| byte.is_ascii_digit());
    if rest.get(digits) == Some(&b'.') && rest.get(digits.saturating_add(1)).is_some_and(u8::is_ascii_digit) {
        let digits = run(rest, digits.saturating_add(1), |byte| byte.is_ascii_digit());
        return Scan::Token(Kind::Float, exponent(rest, digits).unwrap_or(digits));
    }
    match exponent(rest, digits) {
        Some(end) => Scan::Token(Kind::Float, end),
        None => unsigned(digits),
    }
}

/// The end of the exponent that begins at `from`.
fn exponent(rest: &[u8], from: usize) -> Option<usize> {
    matches!(rest.get(from), Some(b'e' | b'E')).then_some(())?;
    let digits = if matches!(rest.get(from.saturating_add(1)), Some(b'+' | b'-')) {
        from.saturating_add(2)
    } else {
        from.saturating_add(1)
    };
    let end = run(rest, digits, |byte| byte.is_ascii_digit());
    (end > digits).then_some(end)
}

fn escaped_identifier(rest: &[u8]) -> Scan {
    let end =
        run(rest, 1, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' '));
    match rest.get(end) {
        Some(b'`') if end > 1 => Scan::Token(Kind::EscapedIdent, end.saturating_add(1)),
        _ => Scan::Failed(end),
    }
}

/// A keyword, an identifier, or a string with a prefix. A prefix whose string does not end is an identifier.
fn word(rest: &[u8]) -> Scan {
    let prefixed = |prefix: usize| {
        let quoted = rest.get(prefix..)?;
        let raw = matches!(quoted.first(), Some(b'r' | b'R'));
        let body = if raw { quoted.get(1..)? } else { quoted };
        matches!(body.first(), Some(b'"' | b'\'')).then_some(())?;
        let length = if raw { raw_string(body) } else { string(body).ok() }?;
        Some(prefix.saturating_add(usize::from(raw)).saturating_add(length))
    };
    let first = rest.first().copied().unwrap_or_default();
    if matches!(first, b'b' | b'B')
        && let Some(length) = prefixed(1)
    {
        return Scan::Token(Kind::Bytes, length);
    }
    if matches!(first, b'r' | b'R')
        && let Some(length) = prefixed(0)
    {
        return Scan::Token(Kind::String, length);
    }
    let end = run(rest, 0, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let kind = match rest.get(..end).unwrap_or_default() {
        b"in" => Kind::In,
        b"true" => Kind::True,
        b"false" => Kind::False,
        b"null" => Kind::Null,
        _ => Kind::Ident,
    };
    Scan::Token(kind, end)
}

/// The length of the string that begins with a quote, or the length up to the error.
fn string(rest: &[u8]) -> Result<usize, usize> {
    let quote = rest.first().copied().unwrap_or_default();
    if rest.starts_with(&[quote; 3])
        && let Ok(end) = body(rest, 3, |tail| tail.starts_with(&[quote; 3]), |_| false)
    {
        return Ok(end.saturating_add(3));
    }
    body(rest, 1, |tail| tail.first() == Some(&quote), |byte| matches!(byte, b'\n' | b'\r'))
        .map(|end| end.saturating_add(1))
}

/// The length of the raw string that begins with a quote.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let quote = rest.first().copied().unwrap_or_default();
    if rest.starts_with(&[quote; 3])
        && let Some(end) =
            rest.get(3..).and_then(|tail| tail.windows(3).position(|window| window == [quote; 3]))
    {
        return Some(end.saturating_add(6));
    }
    let end = run(rest, 1, |byte| byte != quote && !matches!(byte, b'\n' | b'\r'));
    (rest.get(end) == Some(&quote)).then_some(end.saturating_add(1))
}

/// The end of a string's content, or the position of the error.
fn body(
    rest: &[u8],
    from: usize,
    closes: impl Fn(&[u8]) -> bool,
    forbidden: impl Fn(u8) -> bool,
) -> Result<usize, usize> {
    let mut at = from;
    loop {
        let tail = rest.get(at..).unwrap_or_default();
        match tail.first() {
            None => return Err(at),
            Some(_) if closes(tail) => return Ok(at),
            Some(b'\\') => at = at.saturating_add(escape(tail).map_err(|good| at.saturating_add(good))?),
            Some(byte) if forbidden(*byte) => return Err(at),
            Some(_) => at = at.saturating_add(1),
        }
    }
}

/// The length of the escape that begins with a backslash, or the length up to the error.
fn escape(tail: &[u8]) -> Result<usize, usize> {
    let digits = |count: usize, belongs: fn(&u8) -> bool| {
        (2..count.saturating_add(2))
            .find(|at| !tail.get(*at).is_some_and(belongs))
            .map_or(Ok(count.saturating_add(2)), Err)
    };
    match tail.get(1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(2),
        Some(b'x' | b'X') => digits(2, u8::is_ascii_hexdigit),
        Some(b'u') => digits(4, u8::is_ascii_hexdigit),
        Some(b'U') => digits(8, u8::is_ascii_hexdigit),
        Some(b'0'..=b'3') => digits(2, |byte| matches!(byte, b'0'..=b'7')),
        _ => Err(1),
    }
}
