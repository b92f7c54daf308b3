//! What cel-go says about the tree that comes of the recovery, beyond the syntax errors.

use super::super::lexer::Kind;
use super::super::literal;
use super::Recovery;
use crate::words;

impl Recovery<'_> {
    /// A variable or a function must not have a reserved name; the arguments of one that has are not looked at.
    pub(super) fn complain_about_name(&mut self, first: usize, complaints: usize) {
        let (Some(start), dotted) = (self.token(first), self.kinds.get(first) == Some(&Kind::Dot)) else {
            return;
        };
        let Some(name) =
            self.token(first.saturating_add(usize::from(dotted))).filter(|token| token.kind == Kind::Ident)
        else {
            return;
        };
        if words::is_reserved(name.text(self.text)) {
            let complaint = (start.offset, format!("reserved identifier: {}", name.text(self.text)));
            self.complaints.truncate(complaints);
            self.complaints.push(complaint);
        }
    }

    pub(super) fn complain_about_literal(&mut self, first: usize) {
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
            self.complaints.push((offset, message.into()));
        }
    }
}
