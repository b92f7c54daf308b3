//! The errors that cel-go reports for the recovered tree, beside syntax errors.

use super::super::lexer::Kind;
use super::super::literal;
use super::Recovery;
use crate::words;

impl Recovery<'_> {
    /// Reports a variable or function with a reserved name; the arguments of such a function are not checked.
    pub(super) fn report_reserved_name(&mut self, first: usize, tree_errors: usize) {
        let (Some(start), dotted) = (self.token(first), self.kinds.get(first) == Some(&Kind::Dot)) else {
            return;
        };
        let Some(name) =
            self.token(first.saturating_add(usize::from(dotted))).filter(|token| token.kind == Kind::Ident)
        else {
            return;
        };
        if words::is_reserved(name.text(self.text)) {
            let error = (start.offset, format!("reserved identifier: {}", name.text(self.text)));
            self.tree_errors.truncate(tree_errors);
            self.tree_errors.push(error);
        }
    }

    pub(super) fn report_literal(&mut self, first: usize) {
        let negative = self.kinds.get(first) == Some(&Kind::Minus);
        let (Some(start), Some(token)) =
            (self.token(first), self.token(first.saturating_add(usize::from(negative))))
        else {
            return;
        };
        let text = token.text(self.text);
        let value = match token.kind {
            Kind::Int => literal::int(text, negative),
            Kind::Uint => literal::uint(text),
            Kind::Float => literal::double(text, negative),
            Kind::String => literal::string(text),
            Kind::Bytes => literal::bytes(text),
            _ => return,
        };
        if let Err(message) = value {
            let offset = start.offset;
            self.tree_errors.push((offset, message.into()));
        }
    }
}
