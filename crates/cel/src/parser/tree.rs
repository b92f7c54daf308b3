//! Creates nodes: assigns ids and records the position of each node.

use std::sync::Arc;

use crate::ast::{Comprehension, Expr, ExprKind, Id, Literal, MapEntry, StructField};

/// Assigns ids. Copied subtrees get new ids, so the last id measures the size of the tree.
pub(super) struct Builder {
    offsets: Vec<u32>,
    /// The position of the macro whose nodes are created.
    pub(super) macro_at: u32,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder { offsets: vec![u32::MAX], macro_at: 0 }
    }

    pub(super) fn into_offsets(self) -> Vec<u32> {
        self.offsets
    }

    pub(super) fn count(&self) -> usize {
        self.offsets.len()
    }

    pub(super) fn new_id(&mut self, offset: u32) -> Id {
        self.offsets.push(offset);
        Id::try_from(self.offsets.len().saturating_sub(1)).unwrap_or(Id::MAX)
    }

    pub(super) fn set_position(&mut self, id: Id, offset: u32) {
        if let Some(slot) = self.offsets.get_mut(id as usize) {
            *slot = offset;
        }
    }

    pub(super) fn offset(&self, id: Id) -> u32 {
        self.offsets.get(id as usize).copied().unwrap_or(u32::MAX)
    }

    /// Releases an id: the last one is reused, any other is left without a node.
    pub(super) fn delete(&mut self, id: Id) {
        self.set_position(id, u32::MAX);
        if (id as usize).saturating_add(1) == self.offsets.len() {
            self.offsets.pop();
        }
    }

    pub(super) fn at(&mut self, offset: u32, kind: ExprKind) -> Expr {
        Expr { id: self.new_id(offset), kind }
    }

    pub(super) fn literal(&mut self, literal: Literal) -> Expr {
        self.at(self.macro_at, ExprKind::Literal(literal))
    }

    pub(super) fn ident(&mut self, name: &Arc<str>) -> Expr {
        self.at(self.macro_at, ExprKind::Ident(name.clone()))
    }

    pub(super) fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.at(self.macro_at, ExprKind::Call { function: function.into(), target: None, args })
    }

    pub(super) fn method(&mut self, function: &str, target: Expr) -> Expr {
        let target = Some(Box::new(target));
        self.at(self.macro_at, ExprKind::Call { function: function.into(), target, args: Vec::new() })
    }

    pub(super) fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.at(self.macro_at, ExprKind::List { elements, optional: Vec::new() })
    }

    pub(super) fn comprehension(&mut self, comprehension: Comprehension) -> Expr {
        self.at(self.macro_at, ExprKind::Comprehension(Box::new(comprehension)))
    }

    /// The same tree under new ids.
    pub(super) fn copy(&mut self, expr: &Expr) -> Expr {
        let id = self.new_id(self.offset(expr.id));
        let kind = match &expr.kind {
            kind @ (ExprKind::Literal(_) | ExprKind::Ident(_)) => kind.clone(),
            ExprKind::Select { operand, field, test_only } => {
                ExprKind::Select { operand: self.boxed(operand), field: field.clone(), test_only: *test_only }
            }
            ExprKind::Call { function, target, args } => {
                let args = args.iter().map(|arg| self.copy(arg)).collect();
                let target = target.as_deref().map(|target| self.boxed(target));
                ExprKind::Call { function: function.clone(), target, args }
            }
            ExprKind::List { elements, optional } => {
                let elements = elements.iter().map(|element| self.copy(element)).collect();
                ExprKind::List { elements, optional: optional.clone() }
            }
            ExprKind::Map(entries) => {
                ExprKind::Map(entries.iter().map(|entry| self.copy_entry(entry)).collect())
            }
            ExprKind::Struct { name, fields } => {
                let fields = fields.iter().map(|field| self.copy_field(field)).collect();
                ExprKind::Struct { name: name.clone(), fields }
            }
            ExprKind::Comprehension(it) => ExprKind::Comprehension(Box::new(Comprehension {
                iter_range: self.copy(&it.iter_range),
                iter_var: it.iter_var.clone(),
                iter_var2: it.iter_var2.clone(),
                accu_var: it.accu_var.clone(),
                accu_init: self.copy(&it.accu_init),
                loop_condition: self.copy(&it.loop_condition),
                loop_step: self.copy(&it.loop_step),
                result: self.copy(&it.result),
            })),
        };
        Expr { id, kind }
    }

    fn boxed(&mut self, expr: &Expr) -> Box<Expr> {
        Box::new(self.copy(expr))
    }

    fn copy_entry(&mut self, entry: &MapEntry) -> MapEntry {
        let id = self.new_id(self.macro_at);
        MapEntry { id, key: self.copy(&entry.key), value: self.copy(&entry.value), optional: entry.optional }
    }

    fn copy_field(&mut self, field: &StructField) -> StructField {
        let id = self.new_id(self.macro_at);
        StructField { id, name: field.name.clone(), value: self.copy(&field.value), optional: field.optional }
    }
}
