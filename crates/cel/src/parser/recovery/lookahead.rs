//! A fast path for predictions that a few tokens decide; the simulation gives the same results slowly.

use super::super::{calc_operator, relation_operator};
use super::Recovery;
use super::grammar::Rule;
use super::network::StateId;
use super::predict::NoViable;
use crate::parser::lexer::Kind;

/// The decision that is predicted.
#[derive(Clone, Copy)]
pub(super) enum Point {
    /// Which of the alternatives of a rule, or of its loop.
    Among(Rule),
    /// Whether the loop of a rule continues: 1 or 2.
    Again(Rule),
}

/// The number of the alternative that continues a loop, or of the one that leaves it.
fn loop_alternative(goes_on: bool) -> usize {
    if goes_on { 1 } else { 2 }
}

impl Recovery<'_> {
    /// The result of the simulation if a few tokens decide it, which is nearly always the case.
    pub(super) fn lookahead(
        &self,
        point: Point,
        state: StateId,
        precedence: u8,
    ) -> Option<Result<usize, NoViable>> {
        let begins_member = |kind| self.look(self.network.start(Rule::Member)).has(kind);
        Some(Ok(match (point, self.kind(0)) {
            (Point::Again(Rule::Member), kind) => {
                loop_alternative(matches!(kind, Kind::Dot | Kind::LeftBracket))
            }
            (Point::Again(Rule::Relation), kind) => {
                loop_alternative(precedence <= 1 && relation_operator(kind).is_some())
            }
            (Point::Again(Rule::Calc), kind) => loop_alternative(
                calc_operator(kind).is_some_and(|(_, its)| precedence <= u8::from(its > 0).saturating_add(1)),
            ),
            // Another `-`, which can also belong to a number after the last one.
            (Point::Again(Rule::Unary), Kind::Minus) if begins_member(self.kind(1)) => 1,
            (Point::Again(Rule::Unary), Kind::Minus) => return Some(Err(NoViable(1))),
            (Point::Again(Rule::Unary), _) => 2,
            // A comma, which can also be a trailing one.
            (Point::Again(_), Kind::Comma) => {
                let next = self.kind(1);
                let rule = if matches!(point, Point::Again(Rule::FieldInit)) {
                    Rule::OptField
                } else {
                    Rule::OptExpr
                };
                loop_alternative(self.look(self.network.start(rule)).has(next))
            }
            (Point::Again(_), _) => 2,
            (Point::Among(Rule::Primary), Kind::Dot) if self.kind(1) != Kind::Ident => {
                return Some(Err(NoViable(1)));
            }
            (Point::Among(Rule::Primary), Kind::Dot) => self.lookahead_name(2),
            (Point::Among(Rule::Primary), Kind::Ident) => self.lookahead_name(1),
            (Point::Among(Rule::Member), Kind::Dot) => match (self.kind(1), self.kind(2)) {
                (Kind::Ident, Kind::LeftParen) => 2,
                (Kind::Ident | Kind::EscapedIdent | Kind::Question, _) => 1,
                _ => return Some(Err(NoViable(1))),
            },
            (Point::Among(Rule::Literal), Kind::Minus) => match self.kind(1) {
                Kind::Int => 1,
                Kind::Float => 3,
                _ => return Some(Err(NoViable(1))),
            },
            (Point::Among(Rule::Unary), Kind::Minus) => match (self.kind(1), self.kind(2)) {
                // `-1` is a number or a negation until the whole member is parsed.
                (Kind::Int | Kind::Float, Kind::Dot | Kind::LeftBracket) => return None,
                (Kind::Int | Kind::Float, after) if self.after_rule().has(after) => 1,
                (Kind::Int | Kind::Float, _) => return Some(Err(NoViable(0))),
                (kind, _) if begins_member(kind) => 3,
                _ => return Some(Err(NoViable(1))),
            },
            (Point::Among(_), kind) => {
                let sets = self.alternative_sets(state);
                sets.iter().position(|set| set.has(kind))?.saturating_add(1)
            }
        }))
    }

    /// Distinguishes a variable, a call and an object; `ahead` is the position after its first name.
    fn lookahead_name(&self, mut ahead: usize) -> usize {
        if self.kind(ahead) == Kind::LeftParen {
            return 2;
        }
        while self.kind(ahead) == Kind::Dot && self.kind(ahead.saturating_add(1)) == Kind::Ident {
            ahead = ahead.saturating_add(2);
        }
        if self.kind(ahead) == Kind::LeftBrace { 6 } else { 1 }
    }
}
