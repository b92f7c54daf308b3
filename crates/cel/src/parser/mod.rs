//! From text to tree: a recursive descent over the tokens that builds the tree as it goes, expanding macros.
//!
//! It stops at the first syntax error. `recovery` then goes over the tokens again, slowly, to say what is wrong in the
//! words of cel-go, whose parser is made by ANTLR and goes on after an error.

use std::sync::Arc;

mod lexer;
mod literal;
pub mod macros;
mod recovery;
mod tree;

pub use macros::Macro;

use crate::ast::{Ast, Expr, ExprKind, Id, Literal, MapEntry, Source, StructField, operators};
use crate::env::Options;
use crate::issue::Issues;
use crate::words;
use lexer::{Kind, Token};
use macros::Rewritten;
use tree::Builder;

/// How deep a rule of the grammar can be within itself.
const DEPTH_MAX: u32 = 250;
/// How many code points an expression can have.
const TEXT_CHARS_MAX: usize = 100_000;
/// How many nodes a tree can have: macros that copy what they are called on could grow it without bound.
const NODES_MAX: usize = 1_000_000;

const ESCAPED_UNSUPPORTED: &str = "unsupported syntax: '`'";

pub(crate) fn parse(text: &str, macros: &[Macro], options: &Options) -> Result<Ast, Issues> {
    let shared: Arc<str> = text.into();
    let mut issues = Issues::new(shared.clone());
    let chars = text.chars().count();
    if chars > TEXT_CHARS_MAX {
        let message =
            format!("expression code point size exceeds limit: size: {chars}, limit {TEXT_CHARS_MAX}");
        issues.report(None, message);
        return issues.unless_any(Ast { root: nothing(0), source: Source::default() });
    }
    let lexed = lexer::lex(text);
    let mut parser = Parser {
        text,
        tokens: &lexed.tokens,
        next: 0,
        macros,
        options,
        tree: Builder::new(),
        issues,
        depth: Depth::default(),
        too_deep: false,
    };
    match parser.start() {
        Ok(root) if lexed.unrecognized.is_empty() => {
            let source = Source { text: shared, offsets: parser.tree.into_offsets() };
            parser.issues.unless_any(Ast { root, source })
        }
        Err(Stop::Limit(message)) if lexed.unrecognized.is_empty() => {
            let mut issues = Issues::new(shared);
            issues.report(None, message);
            issues.unless_any(Ast { root: nothing(0), source: Source::default() })
        }
        // Only the lexer found something wrong.
        Ok(_) => {
            let mut issues = parser.issues;
            recovery::unrecognized(text, &lexed, &mut issues);
            issues.unless_any(Ast { root: nothing(0), source: Source::default() })
        }
        Err(_) => {
            let mut issues = Issues::new(shared);
            recovery::explain(text, &lexed, options, &mut issues);
            issues.unless_any(Ast { root: nothing(0), source: Source::default() })
        }
    }
}

/// Why parsing ended early.
enum Stop {
    Syntax,
    Limit(String),
}

/// A node and how deep the visitor of cel-go would go to visit it.
struct Parsed {
    expr: Expr,
    height: u32,
}

/// How deep each recursive rule is within itself.
#[derive(Clone, Copy, Default)]
struct Depth {
    expr: u32,
    relation: u32,
    calc: u32,
}

/// Terms joined by one operator.
struct Terms {
    function: &'static str,
    terms: Vec<Option<Expr>>,
    ids: Vec<Id>,
    height: u32,
}

impl Terms {
    fn new(function: &'static str, first: Parsed) -> Terms {
        Terms { function, terms: vec![Some(first.expr)], ids: Vec::new(), height: first.height }
    }

    fn push(&mut self, id: Id, term: Parsed) {
        self.height = self.height.max(term.height);
        self.ids.push(id);
        self.terms.push(Some(term.expr));
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    next: usize,
    macros: &'a [Macro],
    options: &'a Options,
    tree: Builder,
    issues: Issues,
    depth: Depth,
    too_deep: bool,
}

/// Stands where an expression had a mistake in it.
fn nothing(id: Id) -> Expr {
    Expr { id, kind: ExprKind::Literal(Literal::Null) }
}

fn enter(depth: &mut u32) -> Result<(), Stop> {
    *depth = depth.saturating_add(1);
    if *depth > DEPTH_MAX {
        return Err(Stop::Limit(format!("expression recursion limit exceeded: {DEPTH_MAX}")));
    }
    Ok(())
}

impl Parser<'_> {
    fn start(&mut self) -> Result<Expr, Stop> {
        let parsed = self.expr()?;
        self.expect(Kind::End)?;
        if self.too_deep {
            return Err(Stop::Limit("max recursion depth exceeded".into()));
        }
        Ok(parsed.expr)
    }

    fn peek(&self) -> Kind {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Kind {
        self.tokens.get(self.next.saturating_add(ahead)).map_or(Kind::End, |token| token.kind)
    }

    fn advance(&mut self) -> Token {
        let end = Token { kind: Kind::End, start: self.text.len(), end: self.text.len(), offset: 0 };
        let token = self.tokens.get(self.next).or(self.tokens.last()).copied().unwrap_or(end);
        self.next = self.next.saturating_add(1);
        token
    }

    fn accept(&mut self, kind: Kind) -> Option<Token> {
        (self.peek() == kind).then(|| self.advance())
    }

    fn expect(&mut self, kind: Kind) -> Result<Token, Stop> {
        self.accept(kind).ok_or(Stop::Syntax)
    }

    /// Reports a mistake that cel-go finds after parsing; a node takes the place of what is wrong.
    fn mistake(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        let id = self.tree.id(offset);
        self.issues.report(Some(offset), message);
        nothing(id)
    }

    fn node(&mut self, expr: Expr, height: u32) -> Result<Parsed, Stop> {
        if height > DEPTH_MAX {
            // Found after parsing: a syntax error further on comes first.
            self.too_deep = true;
            return Ok(Parsed { expr: nothing(0), height: 0 });
        }
        if self.tree.count() > NODES_MAX {
            return Err(Stop::Limit(format!("expression size exceeds limit: {NODES_MAX}")));
        }
        Ok(Parsed { expr, height })
    }

    fn expr(&mut self) -> Result<Parsed, Stop> {
        enter(&mut self.depth.expr)?;
        let condition = self.or()?;
        let parsed = match self.accept(Kind::Question) {
            None => condition,
            Some(question) => {
                let id = self.tree.id(question.offset);
                let yes = self.or()?;
                self.expect(Kind::Colon)?;
                let no = self.expr()?;
                let height = condition.height.max(yes.height).max(no.height).saturating_add(1);
                let args = vec![condition.expr, yes.expr, no.expr];
                self.node(call(id, operators::CONDITIONAL, args), height)?
            }
        };
        self.depth.expr = self.depth.expr.saturating_sub(1);
        Ok(parsed)
    }

    /// The levels of the grammar between a condition and an operand are one function where nothing is to be done on
    /// them: every level that is a call of its own is stack that nested expressions take again.
    fn or(&mut self) -> Result<Parsed, Stop> {
        let first = self.binary(0)?;
        match self.peek() {
            Kind::And | Kind::Or => self.logic(first),
            _ => Ok(first),
        }
    }

    /// Terms joined by `||` of terms joined by `&&`, each as a balanced tree.
    fn logic(&mut self, first: Parsed) -> Result<Parsed, Stop> {
        let first = self.conjunction(first)?;
        let mut terms = Terms::new(operators::OR, first);
        while let Some(operator) = self.accept(Kind::Or) {
            let next = self.binary(0)?;
            let next = self.conjunction(next)?;
            terms.push(self.tree.id(operator.offset), next);
        }
        self.joined(terms)
    }

    fn conjunction(&mut self, first: Parsed) -> Result<Parsed, Stop> {
        let mut terms = Terms::new(operators::AND, first);
        while let Some(operator) = self.accept(Kind::And) {
            let next = self.binary(0)?;
            terms.push(self.tree.id(operator.offset), next);
        }
        self.joined(terms)
    }

    fn joined(&mut self, mut terms: Terms) -> Result<Parsed, Stop> {
        let expr = match terms.ids.len().checked_sub(1) {
            Some(last) => balanced(terms.function, &mut terms.terms, &terms.ids, 0, last),
            None => terms.terms.pop().flatten().unwrap_or(nothing(0)),
        };
        self.node(expr, terms.height)
    }

    /// Comparisons, sums and products; `least` is the lowest precedence taken: 0 for comparisons, 1 for sums, 2 for
    /// products, 3 for none.
    fn binary(&mut self, least: u32) -> Result<Parsed, Stop> {
        let before = self.depth;
        if least <= 1 {
            enter(&mut self.depth.relation)?;
        }
        enter(&mut self.depth.calc)?;
        let mut left = match self.peek() {
            Kind::Not | Kind::Minus => self.unary()?,
            _ => self.member()?,
        };
        while let Some((function, precedence)) = operator(self.peek()).filter(|(_, its)| *its >= least) {
            if precedence == 0 {
                // The sum on the left has ended.
                self.depth.calc = before.calc;
            }
            let id = self.advance_to_id();
            let right = self.binary(precedence.saturating_add(1))?;
            let height = left.height.max(right.height).saturating_add(1);
            left = self.node(call(id, function, vec![left.expr, right.expr]), height)?;
        }
        self.depth = before;
        Ok(left)
    }

    fn advance_to_id(&mut self) -> Id {
        let token = self.advance();
        self.tree.id(token.offset)
    }

    fn unary(&mut self) -> Result<Parsed, Stop> {
        let (kind, function) = match self.peek() {
            Kind::Not => (Kind::Not, operators::NOT),
            Kind::Minus if !matches!(self.peek_at(1), Kind::Int | Kind::Float) => {
                (Kind::Minus, operators::NEGATE)
            }
            _ => return self.member(),
        };
        let first = self.advance();
        let mut odd = true;
        while self.peek() == kind {
            self.advance();
            odd = !odd;
        }
        if !odd {
            return self.member();
        }
        let id = self.tree.id(first.offset);
        let operand = self.member()?;
        self.node(call(id, function, vec![operand.expr]), operand.height)
    }

    fn member(&mut self) -> Result<Parsed, Stop> {
        let mut left = self.primary()?;
        loop {
            left = match self.peek() {
                Kind::Dot => self.after_dot(left)?,
                Kind::LeftBracket => self.index(left)?,
                _ => return Ok(left),
            };
        }
    }

    fn after_dot(&mut self, operand: Parsed) -> Result<Parsed, Stop> {
        let dot = self.advance();
        let question = self.accept(Kind::Question);
        if question.is_none() && self.peek() == Kind::Ident && self.peek_at(1) == Kind::LeftParen {
            let name = self.advance().text(self.text);
            return self.call(name, Some(operand));
        }
        let token = self.advance();
        let field = self.field_name(&token)?;
        let height = operand.height.saturating_add(1);
        let expr = match question {
            Some(_) if !self.options.optional_syntax => self.mistake(dot.offset, "unsupported syntax '.?'"),
            Some(_) => {
                let field = self.tree.at(token.offset, ExprKind::Literal(Literal::String(field)));
                let id = self.tree.id(dot.offset);
                call(id, operators::OPT_SELECT, vec![operand.expr, field])
            }
            None => {
                let operand = Box::new(operand.expr);
                self.tree.at(dot.offset, ExprKind::Select { operand, field, test_only: false })
            }
        };
        self.node(expr, height)
    }

    /// The name that a token of a field stands for.
    fn field_name(&mut self, token: &Token) -> Result<Arc<str>, Stop> {
        let text = token.text(self.text);
        match token.kind {
            Kind::Ident => Ok(text.into()),
            Kind::EscapedIdent if self.options.escaped_identifiers => Ok(text.trim_matches('`').into()),
            Kind::EscapedIdent => {
                self.mistake(token.offset, ESCAPED_UNSUPPORTED);
                Ok("".into())
            }
            _ => Err(Stop::Syntax),
        }
    }

    fn index(&mut self, operand: Parsed) -> Result<Parsed, Stop> {
        let bracket = self.advance();
        let question = self.accept(Kind::Question);
        let id = self.tree.id(bracket.offset);
        let index = self.expr()?;
        self.expect(Kind::RightBracket)?;
        let height = operand.height.max(index.height).saturating_add(1);
        let args = vec![operand.expr, index.expr];
        let expr = match question {
            Some(_) if !self.options.optional_syntax => {
                self.mistake(bracket.offset, "unsupported syntax '[?'")
            }
            Some(_) => call(id, operators::OPT_INDEX, args),
            None => call(id, operators::INDEX, args),
        };
        self.node(expr, height)
    }

    /// `(args)` after a function's or a method's name, which may be a macro's.
    fn call(&mut self, name: &str, target: Option<Parsed>) -> Result<Parsed, Stop> {
        let open = self.expect(Kind::LeftParen)?;
        let id = self.tree.id(open.offset);
        let mut height = target.as_ref().map_or(0, |target| target.height);
        let mut args = Vec::new();
        if self.peek() != Kind::RightParen {
            loop {
                let arg = self.expr()?;
                height = height.max(arg.height);
                args.push(arg.expr);
                if self.accept(Kind::Comma).is_none() {
                    break;
                }
            }
        }
        self.expect(Kind::RightParen)?;
        let height = height.saturating_add(u32::from(target.is_some()));
        let target = target.map(|target| target.expr);
        let expr = self.call_or_macro(id, name, target, args);
        self.node(expr, height)
    }

    fn call_or_macro(&mut self, id: Id, name: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let plain = |target: Option<Expr>, args| Expr {
            id,
            kind: ExprKind::Call { function: name.into(), target: target.map(Box::new), args },
        };
        let Some(rewrite) = macros::find(self.macros, name, args.len(), target.is_some()) else {
            return plain(target, args);
        };
        self.tree.macro_at = self.tree.offset(id);
        match rewrite(&mut self.tree, target, args) {
            Ok(Rewritten::To(expr)) => {
                self.tree.delete(id);
                expr
            }
            Ok(Rewritten::Not(target, args)) => plain(target, args),
            Err((at, message)) => {
                let offset = self.tree.offset(at);
                self.tree.delete(id);
                self.mistake(offset, message)
            }
        }
    }

    fn primary(&mut self) -> Result<Parsed, Stop> {
        match self.peek() {
            Kind::Dot | Kind::Ident => self.name(),
            Kind::LeftParen => {
                self.advance();
                let inner = self.expr()?;
                self.expect(Kind::RightParen)?;
                Ok(inner)
            }
            Kind::LeftBracket => self.list(),
            Kind::LeftBrace => self.map(),
            _ => self.literal(),
        }
    }

    /// A variable, a function's call, or an object.
    fn name(&mut self) -> Result<Parsed, Stop> {
        let dot = self.accept(Kind::Dot);
        let token = self.expect(Kind::Ident)?;
        let start = dot.unwrap_or(token).offset;
        let mut ahead = 0;
        while self.peek_at(ahead) == Kind::Dot && self.peek_at(ahead.saturating_add(1)) == Kind::Ident {
            ahead = ahead.saturating_add(2);
        }
        let mut name = String::from(if dot.is_some() { "." } else { "" });
        name.push_str(token.text(self.text));
        if self.peek_at(ahead) == Kind::LeftBrace {
            for _ in 0..ahead {
                name.push_str(self.advance().text(self.text));
            }
            return self.object(&name);
        }
        let is_call = self.peek() == Kind::LeftParen;
        if words::is_reserved(token.text(self.text)) {
            let message = format!("reserved identifier: {}", token.text(self.text));
            if is_call {
                // Its arguments are not looked at.
                let found = self.issues.clone();
                let parsed = self.call(&name, None)?;
                self.issues = found;
                let expr = self.mistake(start, message);
                return self.node(expr, parsed.height);
            }
            let expr = self.mistake(start, message);
            return self.node(expr, 0);
        }
        if is_call {
            return self.call(&name, None);
        }
        let expr = self.tree.at(token.offset, ExprKind::Ident(name.into()));
        self.node(expr, 0)
    }

    fn object(&mut self, name: &str) -> Result<Parsed, Stop> {
        let brace = self.expect(Kind::LeftBrace)?;
        let id = self.tree.id(brace.offset);
        let (mut fields, mut height) = (Vec::new(), 0);
        let start = self.tokens.get(self.next).map_or(0, |token| token.offset);
        while !matches!(self.peek(), Kind::RightBrace | Kind::Comma) {
            let question = self.accept(Kind::Question);
            let token = self.advance();
            let before = self.issues.clone();
            let field = self.field_name(&token)?;
            let colon = self.expect(Kind::Colon)?;
            let field_id = self.tree.id(colon.offset);
            let value = self.expr()?;
            // cel-go does not look at the value of a field that it refuses.
            if let Some(question) = question.filter(|_| !self.options.optional_syntax) {
                self.issues = before;
                self.mistake(question.offset, "unsupported syntax '?'");
            } else if token.kind == Kind::EscapedIdent && !self.options.escaped_identifiers {
                self.issues = before;
                self.mistake(start, ESCAPED_UNSUPPORTED);
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
        self.node(Expr { id, kind: ExprKind::Struct { name: name.into(), fields } }, height)
    }

    /// Takes the comma between two elements; false where the last one was.
    fn separated(&mut self, close: Kind) -> Result<bool, Stop> {
        match self.peek() {
            Kind::Comma if self.peek_at(1) != close => {
                self.advance();
                // A second comma is none that separates.
                if self.peek() == Kind::Comma { Err(Stop::Syntax) } else { Ok(true) }
            }
            _ => Ok(false),
        }
    }

    /// The end of a literal with elements, a last comma allowed, even alone.
    fn close(&mut self, close: Kind) -> Result<(), Stop> {
        self.accept(Kind::Comma);
        self.expect(close).map(|_| ())
    }

    fn list(&mut self) -> Result<Parsed, Stop> {
        let bracket = self.advance();
        let id = self.tree.id(bracket.offset);
        let (mut elements, mut optional, mut height) = (Vec::new(), Vec::new(), 0);
        while !matches!(self.peek(), Kind::RightBracket | Kind::Comma) {
            let question = self.accept(Kind::Question);
            let element = self.expr()?;
            match question {
                Some(token) if !self.options.optional_syntax => {
                    self.mistake(token.offset, "unsupported syntax '?'");
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
        self.node(Expr { id, kind: ExprKind::List { elements, optional } }, height)
    }

    fn map(&mut self) -> Result<Parsed, Stop> {
        let brace = self.advance();
        let id = self.tree.id(brace.offset);
        let (mut entries, mut height) = (Vec::new(), 0);
        while !matches!(self.peek(), Kind::RightBrace | Kind::Comma) {
            // The entry's id comes before its key's, though the colon that gives its place comes after.
            let entry_id = self.tree.id(u32::MAX);
            let question = self.accept(Kind::Question);
            let before = self.issues.clone();
            let key = self.expr()?;
            let colon = self.expect(Kind::Colon)?;
            self.tree.place(entry_id, colon.offset);
            let value = self.expr()?;
            // cel-go does not look at an entry that it refuses.
            if let Some(token) = question.filter(|_| !self.options.optional_syntax) {
                self.issues = before;
                self.mistake(token.offset, "unsupported syntax '?'");
            }
            height = height.max(key.height).max(value.height);
            let optional = question.is_some();
            entries.push(MapEntry { id: entry_id, key: key.expr, value: value.expr, optional });
            if !self.separated(Kind::RightBrace)? {
                break;
            }
        }
        self.close(Kind::RightBrace)?;
        self.node(Expr { id, kind: ExprKind::Map(entries) }, height)
    }

    fn literal(&mut self) -> Result<Parsed, Stop> {
        let minus = self.accept(Kind::Minus);
        let token = self.advance();
        let text = token.text(self.text);
        let value = match (token.kind, minus.is_some()) {
            (Kind::Int, negative) => literal::int(text, negative),
            (Kind::Float, negative) => literal::double(text, negative),
            (Kind::Uint, false) => literal::uint(text),
            (Kind::String, false) => literal::string(text),
            (Kind::Bytes, false) => literal::bytes(text),
            (Kind::True, false) => Ok(Literal::Bool(true)),
            (Kind::False, false) => Ok(Literal::Bool(false)),
            (Kind::Null, false) => Ok(Literal::Null),
            _ => return Err(Stop::Syntax),
        };
        let offset = minus.unwrap_or(token).offset;
        let expr = match value {
            Ok(value) => self.tree.at(offset, ExprKind::Literal(value)),
            Err(message) => self.mistake(offset, message),
        };
        self.node(expr, 0)
    }
}

fn call(id: Id, function: &str, args: Vec<Expr>) -> Expr {
    Expr { id, kind: ExprKind::Call { function: function.into(), target: None, args } }
}

/// The terms `low..=high + 1` joined by the operators `low..=high`, the middle one outermost.
fn balanced(function: &str, terms: &mut [Option<Expr>], ids: &[Id], low: usize, high: usize) -> Expr {
    let middle = low.saturating_add(high).div_ceil(2);
    let mut term = |index: usize| terms.get_mut(index).and_then(Option::take).unwrap_or(nothing(0));
    let left = (middle == low).then(|| term(middle));
    let right = (middle == high).then(|| term(middle.saturating_add(1)));
    let left = left.unwrap_or_else(|| balanced(function, terms, ids, low, middle.saturating_sub(1)));
    let right = right.unwrap_or_else(|| balanced(function, terms, ids, middle.saturating_add(1), high));
    call(ids.get(middle).copied().unwrap_or_default(), function, vec![left, right])
}

/// A binary operator and its precedence: 0 for comparisons, 1 for sums, 2 for products.
fn operator(kind: Kind) -> Option<(&'static str, u32)> {
    let relation = relation_operator(kind).map(|function| (function, 0));
    relation.or_else(|| {
        calc_operator(kind).map(|(function, precedence)| (function, precedence.saturating_add(1)))
    })
}

fn relation_operator(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Less => operators::LESS,
        Kind::LessEquals => operators::LESS_EQUALS,
        Kind::Greater => operators::GREATER,
        Kind::GreaterEquals => operators::GREATER_EQUALS,
        Kind::Equals => operators::EQUALS,
        Kind::NotEquals => operators::NOT_EQUALS,
        Kind::In => operators::IN,
        _ => return None,
    })
}

fn calc_operator(kind: Kind) -> Option<(&'static str, u32)> {
    Some(match kind {
        Kind::Plus => (operators::ADD, 0),
        Kind::Minus => (operators::SUBTRACT, 0),
        Kind::Star => (operators::MULTIPLY, 1),
        Kind::Slash => (operators::DIVIDE, 1),
        Kind::Percent => (operators::MODULO, 1),
        _ => return None,
    })
}
