//! The grammar as data, its left-recursive rules turned into loops as ANTLR does.

use super::super::lexer::Kind;

/// The rules, in the order of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Start,
    Expr,
    Or,
    And,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    ExprList,
    ListInit,
    FieldInit,
    OptField,
    MapInit,
    EscapeIdent,
    OptExpr,
    Literal,
}

/// A part of an alternative.
pub(super) enum Part {
    Token(Kind),
    OneOf(&'static [Kind]),
    Rule(Rule),
    /// A left-recursive rule, and the lowest precedence that it may accept.
    Recursive(Rule, u8),
    /// Continues only if the rule was entered with this precedence or a lower one.
    Precedence(u8),
    Optional(&'static [Part]),
    /// Any number of times; one token decides whether to continue.
    Star(Alternatives),
    /// Any number of times; a prediction decides whether to continue.
    StarPredicted(Alternatives),
    /// At least once; one token decides whether to continue.
    Plus(&'static [Part]),
    /// At least once; a prediction decides whether to continue.
    PlusPredicted(&'static [Part]),
}

/// The alternatives of a rule or a loop, in order.
pub(super) type Alternatives = &'static [&'static [Part]];

use Part::{OneOf, Optional, Plus, PlusPredicted, Precedence, Recursive, Star, StarPredicted, Token};

/// The alternatives of each rule.
pub(super) const RULES: [(Rule, Alternatives); 17] = [
    (Rule::Start, &[&[Part::Rule(Rule::Expr), Token(Kind::End)]]),
    (
        Rule::Expr,
        &[&[
            Part::Rule(Rule::Or),
            Optional(&[
                Token(Kind::Question),
                Part::Rule(Rule::Or),
                Token(Kind::Colon),
                Part::Rule(Rule::Expr),
            ]),
        ]],
    ),
    (Rule::Or, &[&[Part::Rule(Rule::And), Star(&[&[Token(Kind::Or), Part::Rule(Rule::And)]])]]),
    (
        Rule::And,
        &[&[Recursive(Rule::Relation, 0), Star(&[&[Token(Kind::And), Recursive(Rule::Relation, 0)]])]],
    ),
    (
        Rule::Relation,
        &[&[
            Recursive(Rule::Calc, 0),
            StarPredicted(&[&[
                Precedence(1),
                OneOf(&[
                    Kind::Less,
                    Kind::LessEquals,
                    Kind::GreaterEquals,
                    Kind::Greater,
                    Kind::Equals,
                    Kind::NotEquals,
                    Kind::In,
                ]),
                Recursive(Rule::Relation, 2),
            ]]),
        ]],
    ),
    (
        Rule::Calc,
        &[&[
            Part::Rule(Rule::Unary),
            StarPredicted(&[
                &[Precedence(2), OneOf(&[Kind::Star, Kind::Slash, Kind::Percent]), Recursive(Rule::Calc, 3)],
                &[Precedence(1), OneOf(&[Kind::Plus, Kind::Minus]), Recursive(Rule::Calc, 2)],
            ]),
        ]],
    ),
    (
        Rule::Unary,
        &[
            &[Recursive(Rule::Member, 0)],
            &[Plus(&[Token(Kind::Not)]), Recursive(Rule::Member, 0)],
            &[PlusPredicted(&[Token(Kind::Minus)]), Recursive(Rule::Member, 0)],
        ],
    ),
    (
        Rule::Member,
        &[&[
            Part::Rule(Rule::Primary),
            StarPredicted(&[
                &[
                    Precedence(3),
                    Token(Kind::Dot),
                    Optional(&[Token(Kind::Question)]),
                    Part::Rule(Rule::EscapeIdent),
                ],
                &[
                    Precedence(2),
                    Token(Kind::Dot),
                    Token(Kind::Ident),
                    Token(Kind::LeftParen),
                    Optional(&[Part::Rule(Rule::ExprList)]),
                    Token(Kind::RightParen),
                ],
                &[
                    Precedence(1),
                    Token(Kind::LeftBracket),
                    Optional(&[Token(Kind::Question)]),
                    Part::Rule(Rule::Expr),
                    Token(Kind::RightBracket),
                ],
            ]),
        ]],
    ),
    (
        Rule::Primary,
        &[
            &[Optional(&[Token(Kind::Dot)]), Token(Kind::Ident)],
            &[
                Optional(&[Token(Kind::Dot)]),
                Token(Kind::Ident),
                Token(Kind::LeftParen),
                Optional(&[Part::Rule(Rule::ExprList)]),
                Token(Kind::RightParen),
            ],
            &[Token(Kind::LeftParen), Part::Rule(Rule::Expr), Token(Kind::RightParen)],
            &[
                Token(Kind::LeftBracket),
                Optional(&[Part::Rule(Rule::ListInit)]),
                Optional(&[Token(Kind::Comma)]),
                Token(Kind::RightBracket),
            ],
            &[
                Token(Kind::LeftBrace),
                Optional(&[Part::Rule(Rule::MapInit)]),
                Optional(&[Token(Kind::Comma)]),
                Token(Kind::RightBrace),
            ],
            &[
                Optional(&[Token(Kind::Dot)]),
                Token(Kind::Ident),
                Star(&[&[Token(Kind::Dot), Token(Kind::Ident)]]),
                Token(Kind::LeftBrace),
                Optional(&[Part::Rule(Rule::FieldInit)]),
                Optional(&[Token(Kind::Comma)]),
                Token(Kind::RightBrace),
            ],
            &[Part::Rule(Rule::Literal)],
        ],
    ),
    (Rule::ExprList, &[&[Part::Rule(Rule::Expr), Star(&[&[Token(Kind::Comma), Part::Rule(Rule::Expr)]])]]),
    (
        Rule::ListInit,
        &[&[Part::Rule(Rule::OptExpr), StarPredicted(&[&[Token(Kind::Comma), Part::Rule(Rule::OptExpr)]])]],
    ),
    (
        Rule::FieldInit,
        &[&[
            Part::Rule(Rule::OptField),
            Token(Kind::Colon),
            Part::Rule(Rule::Expr),
            StarPredicted(&[&[
                Token(Kind::Comma),
                Part::Rule(Rule::OptField),
                Token(Kind::Colon),
                Part::Rule(Rule::Expr),
            ]]),
        ]],
    ),
    (Rule::OptField, &[&[Optional(&[Token(Kind::Question)]), Part::Rule(Rule::EscapeIdent)]]),
    (
        Rule::MapInit,
        &[&[
            Part::Rule(Rule::OptExpr),
            Token(Kind::Colon),
            Part::Rule(Rule::Expr),
            StarPredicted(&[&[
                Token(Kind::Comma),
                Part::Rule(Rule::OptExpr),
                Token(Kind::Colon),
                Part::Rule(Rule::Expr),
            ]]),
        ]],
    ),
    (Rule::EscapeIdent, &[&[Token(Kind::Ident)], &[Token(Kind::EscapedIdent)]]),
    (Rule::OptExpr, &[&[Optional(&[Token(Kind::Question)]), Part::Rule(Rule::Expr)]]),
    (
        Rule::Literal,
        &[
            &[Optional(&[Token(Kind::Minus)]), Token(Kind::Int)],
            &[Token(Kind::Uint)],
            &[Optional(&[Token(Kind::Minus)]), Token(Kind::Float)],
            &[Token(Kind::String)],
            &[Token(Kind::Bytes)],
            &[Token(Kind::True)],
            &[Token(Kind::False)],
            &[Token(Kind::Null)],
        ],
    ),
];

/// Whether the rule was left-recursive, so that its loop depends on precedence.
pub(super) fn is_recursive(rule: Rule) -> bool {
    matches!(rule, Rule::Relation | Rule::Calc | Rule::Member)
}
