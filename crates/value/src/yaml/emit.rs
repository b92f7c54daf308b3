//! Writes the scalars of YAML as libyaml's emitter does: which style a text may have, and where its lines break.

/// Lines are broken at a blank once they are longer than this.
const WIDTH: usize = 80;

/// Each level of nesting is indented by this much.
const INDENT: i32 = 2;

/// The style in which a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// The properties of a text that decide which styles can represent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Analysis {
    /// Whether the text has a line break.
    pub(super) multiline: bool,
    plain_allowed: bool,
    single_quoted_allowed: bool,
    literal_allowed: bool,
}

/// Determines which styles can represent `text`.
pub(super) fn analyze(text: &str) -> Analysis {
    if text.is_empty() {
        let quoted = Analysis {
            multiline: false,
            plain_allowed: true,
            single_quoted_allowed: true,
            literal_allowed: false,
        };
        return quoted;
    }
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let (mut special, mut breaks) = (false, false);
    let (mut space_break, mut break_space) = (false, false);
    let mut previous = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let before_blank = chars.peek().is_none_or(|&next| next == ' ' || next == '\t');
        indicators |= match (previous, c) {
            (
                None,
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`',
            ) => true,
            (None, '?' | ':' | '-') | (Some(_), ':') => before_blank,
            (Some(before), '#') => is_blank_or_break(before),
            _ => false,
        };
        special |= !is_printable(c);
        break_space |= c == ' ' && previous.is_some_and(is_break);
        space_break |= is_break(c) && previous == Some(' ');
        breaks |= is_break(c);
        previous = Some(c);
    }
    let ends = |ends_so: fn(char) -> bool| text.starts_with(ends_so) || text.ends_with(ends_so);
    Analysis {
        multiline: breaks,
        plain_allowed: !(indicators || special || breaks || space_break || break_space || ends(|c| c == ' ')),
        single_quoted_allowed: !(break_space || space_break || special),
        literal_allowed: !(text.ends_with(' ') || space_break || special),
    }
}

/// The style nearest to `wanted` that can represent the text in this place.
pub(super) fn choose(wanted: Style, analysis: Analysis, text: &str, simple_key: bool) -> Style {
    let mut style = wanted;
    if simple_key && analysis.multiline {
        style = Style::DoubleQuoted;
    }
    if style == Style::Plain && (!analysis.plain_allowed || text.is_empty() && simple_key) {
        style = Style::SingleQuoted;
    }
    if style == Style::SingleQuoted && !analysis.single_quoted_allowed
        || style == Style::Literal && (!analysis.literal_allowed || simple_key)
    {
        style = Style::DoubleQuoted;
    }
    style
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank_or_break(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\0') || is_break(c)
}

/// go-yaml treats no character beyond the basic plane as printable.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// The output and the state of its current line.
pub(super) struct Emitter<'a> {
    out: &'a mut Vec<u8>,
    column: usize,
    /// The indentation of the innermost open collection; -1 outside of all.
    pub(super) indent: i32,
    /// Whether the last character written was a blank or a line start.
    whitespace: bool,
    /// Whether the line has only indentation and the indicators `-`, `?`, `:` so far.
    pub(super) indention: bool,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Emitter { out, column: 0, indent: -1, whitespace: true, indention: true }
    }

    /// The indentation one level deeper.
    pub(super) fn deeper(&self, start: i32) -> i32 {
        if self.indent < 0 { start } else { self.indent.saturating_add(INDENT) }
    }

    fn put(&mut self, c: char) {
        self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        self.column = self.column.saturating_add(1);
    }

    fn put_break(&mut self, c: char) {
        self.put(c);
        self.column = 0;
    }

    /// Starts a new line if needed and indents it.
    pub(super) fn write_indent(&mut self) {
        let indent = usize::try_from(self.indent).unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    /// Writes punctuation, after a blank if `spaced`. `keeps_indention` means that a nested collection may continue on
    /// this line.
    pub(super) fn write_indicator(&mut self, indicator: &str, spaced: bool, keeps_indention: bool) {
        if spaced && !self.whitespace {
            self.put(' ');
        }
        indicator.chars().for_each(|c| self.put(c));
        self.whitespace = false;
        self.indention &= keeps_indention;
    }

    /// Writes a scalar in a style that can represent it.
    pub(super) fn write_scalar(&mut self, text: &str, style: Style, simple_key: bool) {
        let outer = self.indent;
        self.indent = self.deeper(INDENT);
        match style {
            Style::Plain => self.write_plain(text, !simple_key),
            Style::SingleQuoted => self.write_single_quoted(text, !simple_key),
            Style::DoubleQuoted => self.write_double_quoted(text, !simple_key),
            Style::Literal => self.write_literal(text),
        }
        self.indent = outer;
    }

    fn write_plain(&mut self, text: &str, may_break: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' && may_break && !spaces && self.column > WIDTH && chars.peek() != Some(&' ') {
                self.write_indent();
            } else {
                self.put(c);
            }
            spaces = c == ' ';
            self.indention &= spaces;
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn write_single_quoted(&mut self, text: &str, may_break: bool) {
        self.write_indicator("'", true, false);
        let (mut spaces, mut breaks) = (false, false);
        let mut chars = text.chars().enumerate().peekable();
        while let Some((index, c)) = chars.next() {
            let next = chars.peek().map(|&(_, next)| next);
            if c == ' ' {
                let inner = index > 0 && next.is_some_and(|next| next != ' ');
                if may_break && !spaces && self.column > WIDTH && inner {
                    self.write_indent();
                } else {
                    self.put(c);
                }
                spaces = true;
            } else if is_break(c) {
                // A single line feed would be folded into a blank.
                if !breaks && c == '\n' {
                    self.put_break('\n');
                }
                self.put_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if c == '\'' {
                    self.put('\'');
                }
                self.put(c);
                self.indention = false;
                (spaces, breaks) = (false, false);
            }
        }
        self.write_indicator("'", false, false);
    }

    fn write_double_quoted(&mut self, text: &str, may_break: bool) {
        self.write_indicator("\"", true, false);
        let mut spaces = false;
        let mut chars = text.chars().enumerate().peekable();
        while let Some((index, c)) = chars.next() {
            if !is_printable(c) || is_break(c) || c == '"' || c == '\\' {
                self.write_escape(c);
                spaces = false;
                continue;
            }
            let next = chars.peek().map(|&(_, next)| next);
            let inner = index > 0 && next.is_some();
            if c == ' ' && may_break && !spaces && self.column > WIDTH && inner {
                self.write_indent();
                if next == Some(' ') {
                    self.put('\\');
                }
            } else {
                self.put(c);
            }
            spaces = c == ' ';
        }
        self.write_indicator("\"", false, false);
    }

    fn write_escape(&mut self, c: char) {
        let code = u32::from(c);
        let escape = match c {
            '\0' => "0".into(),
            '\u{7}' => "a".into(),
            '\u{8}' => "b".into(),
            '\t' => "t".into(),
            '\n' => "n".into(),
            '\u{b}' => "v".into(),
            '\u{c}' => "f".into(),
            '\r' => "r".into(),
            '\u{1b}' => "e".into(),
            '"' | '\\' => c.to_string(),
            '\u{85}' => "N".into(),
            '\u{a0}' => "_".into(),
            '\u{2028}' => "L".into(),
            '\u{2029}' => "P".into(),
            '\0'..='\u{ff}' => format!("x{code:02X}"),
            '\0'..='\u{ffff}' => format!("u{code:04X}"),
            _ => format!("U{code:08X}"),
        };
        self.put('\\');
        escape.chars().for_each(|c| self.put(c));
    }

    fn write_literal(&mut self, text: &str) {
        self.write_indicator("|", true, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.write_indicator("2", false, false);
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next().is_none_or(is_break)) {
            (false, _) => self.write_indicator("-", false, false),
            (true, true) => self.write_indicator("+", false, false),
            (true, false) => {}
        }
        self.put_break('\n');
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.put(c);
                self.indention = false;
                breaks = false;
            }
        }
    }
}
