//! Literals with elements: objects, lists and maps.

use super::lexer::Kind;
use super::{ESCAPED_UNSUPPORTED, Parsed, Parser, Stop};
use crate::ast::{Expr, ExprKind, MapEntry, StructField};

impl Parser<'_> {
    pub(super) fn parse_object(&mut self, name: &str) -> Result<Parsed, Stop> {
        let brace = self.expect(Kind::LeftBrace)?;
        let id = self.tree.new_id(brace.offset);
        let (mut fields, mut height) = (Vec::new(), 0);
        let start = self.tokens.get(self.next).map_or(0, |token| token.offset);
        while !matches!(self.peek(), Kind::RightBrace | Kind::Comma) {
            let question = self.accept(Kind::Question);
            let token = self.advance();
            let before = self.issues.clone();
            let field = self.field_name(&token)?;
            let colon = self.expect(Kind::Colon)?;
            let field_id = self.tree.new_id(colon.offset);
            let value = self.parse_expr()?;
            // cel-go does not visit the value of a field that it rejects.
            if let Some(question) = question.filter(|_| !self.options.optional_syntax) {
                self.issues = before;
                self.report_error(question.offset, "unsupported syntax '?'");
            } else if token.kind == Kind::EscapedIdent && !self.options.escaped_identifiers {
                self.issues = before;
                self.report_error(start, ESCAPED_UNSUPPORTED);
            }
            height = height.max(value.height);
            fields.push(StructField {
                id: field_id,
                name: field,
                value: value.expr,
                optional: question.is_some(),
            });
            if !self.separated(Kind::RightBrace)? {
                break;
            }
        }
        self.close(Kind::RightBrace)?;
        self.limited_node(Expr { id, kind: ExprKind::Struct { name: name.into(), fields } }, height)
    }

    /// Takes the comma between two elements; false after the last one.
    fn separated(&mut self, close: Kind) -> Result<bool, Stop> {
        match self.peek() {
            Kind::Comma if self.peek_at(1) != close => {
                self.advance();
                // A second comma is not a separator.
                if self.peek() == Kind::Comma { Err(Stop::Syntax) } else { Ok(true) }
            }
            _ => Ok(false),
        }
    }

    /// Parses the end of a literal with elements; a trailing comma is allowed, even alone.
    fn close(&mut self, close: Kind) -> Result<(), Stop> {
        self.accept(Kind::Comma);
        self.expect(close).map(|_| ())
    }

    pub(super) fn parse_list(&mut self) -> Result<Parsed, Stop> {
        let bracket = self.advance();
        let id = self.tree.new_id(bracket.offset);
        let (mut elements, mut optional, mut height) = (Vec::new(), Vec::new(), 0);
        while !matches!(self.peek(), Kind::RightBracket | Kind::Comma) {
            let question = self.accept(Kind::Question);
            let element = self.parse_expr()?;
            match question {
                Some(token) if !self.options.optional_syntax => {
                    self.report_error(token.offset, "unsupported syntax '?'");
                }
                Some(_) => optional.push(u32::try_from(elements.len()).unwrap_or(u32::MAX)),
                None => {}
            }
            height = height.max(element.height);
            elements.push(element.expr);
            if !self.separated(Kind::RightBracket)? {
                break;
            }
        }
        self.close(Kind::RightBracket)?;
        self.limited_node(Expr { id, kind: ExprKind::List { elements, optional } }, height)
    }

    pub(super) fn parse_map(&mut self) -> Result<Parsed, Stop> {
        let brace = self.advance();
        let id = self.tree.new_id(brace.offset);
        let (mut entries, mut height) = (Vec::new(), 0);
        while !matches!(self.peek(), Kind::RightBrace | Kind::Comma) {
            // The entry's id comes before its key's, although the colon that gives its position comes after.
            let entry_id = self.tree.new_id(u32::MAX);
            let question = self.accept(Kind::Question);
            let before = self.issues.clone();
            let key = self.parse_expr()?;
            let colon = self.expect(Kind::Colon)?;
            self.tree.set_position(entry_id, colon.offset);
            let value = self.parse_expr()?;
            // cel-go does not visit an entry that it rejects.
            if let Some(token) = question.filter(|_| !self.options.optional_syntax) {
                self.issues = before;
                self.report_error(token.offset, "unsupported syntax '?'");
            }
            height = height.max(key.height).max(value.height);
            let optional = question.is_some();
            entries.push(MapEntry { id: entry_id, key: key.expr, value: value.expr, optional });
            if !self.separated(Kind::RightBrace)? {
                break;
            }
        }
        self.close(Kind::RightBrace)?;
        self.limited_node(Expr { id, kind: ExprKind::Map(entries) }, height)
    }
}
