//! Types of expressions.
use crate::ast::Ast;
use crate::env::{Checked, Env};
use crate::issue::Issues;

pub(crate) fn check(env: &Env, ast: Ast) -> Result<Checked, Issues> {
    Ok(Checked { ast, env: env.clone(), types: Vec::new(), references: Vec::new() })
}
