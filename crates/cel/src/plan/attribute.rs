//! Plans names, fields and indices: a chain of them becomes one attribute.

use std::sync::Arc;

use super::{Attribute, Candidate, Node, Planner, Qualifier, QualifierKey, Root, names_within};
use crate::ast::{Expr, ExprKind};
use crate::env::Reference;
use crate::program::PlanError;
use crate::types::Type;
use crate::value::Value;
use crate::words::unescape;

impl Planner<'_> {
    pub(super) fn plan_ident(&mut self, expr: &Expr, name: &str) -> Result<Node, PlanError> {
        if let Some(slot) = self.local(name) {
            return Ok(attribute(Root::Local(slot), Vec::new()));
        }
        match self.reference(expr) {
            Some(Reference::Constant(constant)) => Ok(Node::Constant(constant.value.clone())),
            Some(Reference::Variable(name)) => Ok(attribute(
                Root::Input(name.strip_prefix('.').map_or_else(|| name.clone(), Arc::from)),
                Vec::new(),
            )),
            _ => Ok(attribute(Root::OneOf(self.candidates(name, 0)), Vec::new())),
        }
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.scope.iter().rev().find(|(known, _)| &**known == name).map(|(_, slot)| *slot)
    }

    /// The possible meanings of a name in an unchecked tree.
    fn candidates(&self, name: &str, taken: usize) -> Vec<Candidate> {
        let candidate = |name: Arc<str>| {
            let constant = self.env.constant(&name).map(|constant| constant.value.clone());
            Candidate { name, constant, taken }
        };
        names_within(self.env.container(), name).map(candidate).collect()
    }

    pub(super) fn plan_select(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        field: &Arc<str>,
        test_only: bool,
    ) -> Result<Node, PlanError> {
        match self.reference(expr) {
            Some(Reference::Constant(constant)) => return Ok(Node::Constant(constant.value.clone())),
            Some(Reference::Variable(name)) => return Ok(attribute(Root::Input(name.clone()), Vec::new())),
            _ => {}
        }
        let mut attribute = into_attribute(self.plan(operand)?);
        let key = self.unescaped(&attribute, self.field(operand, field));
        attribute.qualifiers.push(Qualifier { key, optional: false });
        if test_only {
            return Ok(Node::Has(Box::new(attribute)));
        }
        self.extend_names(expr, &mut attribute);
        Ok(Node::Attribute(Box::new(attribute)))
    }

    /// Without types, `a.b` may be a variable with that name, which takes precedence over the field `b` of `a`.
    fn extend_names(&self, expr: &Expr, attribute: &mut Attribute) {
        if let (Root::OneOf(candidates), Some(name)) = (&mut attribute.root, qualified_name(expr)) {
            let mut more = self.candidates(&name, attribute.qualifiers.len());
            more.append(candidates);
            *candidates = more;
        }
    }

    /// How a field is accessed: by its position in the tree if the operand's type is known.
    fn field(&self, operand: &Expr, field: &Arc<str>) -> QualifierKey {
        let key = || QualifierKey::Key(field.clone().into());
        let Some(Type::Object(name)) = self.checked.map(|checked| checked.type_of(operand.id)) else {
            return key();
        };
        let object = self.env.provider().objects.get(name);
        match object.and_then(|object| object.fields.get(&**field)) {
            Some(known) => QualifierKey::Field(field.clone(), known.json.clone(), known.shape.clone()),
            None => key(),
        }
    }

    /// `a[b]`, `a[?b]` and `a.?b`
    pub(super) fn index(&mut self, args: &[Expr], optional: bool) -> Result<Node, PlanError> {
        let [operand, index] = args else { return Err(PlanError("an index takes two operands".into())) };
        let mut attribute = into_attribute(self.plan(operand)?);
        let key = match self.plan(index)? {
            Node::Constant(key) => self.unescaped(&attribute, self.constant_key(operand, key)?),
            Node::Attribute(attribute) => QualifierKey::Attribute(attribute),
            node => QualifierKey::Node(Box::new(node)),
        };
        attribute.qualifiers.push(Qualifier { key, optional });
        Ok(Node::Attribute(Box::new(attribute)))
    }

    fn constant_key(&self, operand: &Expr, key: Value<'static>) -> Result<QualifierKey, PlanError> {
        if let (Value::String(name), true) = (&key, self.is_object(operand)) {
            return Ok(self.field(operand, &name.as_str().into()));
        }
        match crate::eval::check_key(&key) {
            Ok(()) => Ok(QualifierKey::Key(key)),
            Err(err) => Err(PlanError(err.to_string())),
        }
    }

    /// The key of an escaped name. Loop variables and literals use the names as they are, as in kube-apiserver; so do
    /// the maps within a variable if a name cannot be unescaped. The variable itself unescapes its keys (`Object::Lazy`).
    fn unescaped(&self, attribute: &Attribute, key: QualifierKey) -> QualifierKey {
        let is_plain =
            matches!(attribute.root, Root::Local(_) | Root::Node(Node::Constant(_) | Node::Map(_)));
        let is_variable = matches!(attribute.root, Root::Input(_)) && attribute.qualifiers.is_empty();
        match key {
            QualifierKey::Key(Value::String(name))
                if self.env.options().escaped_keys && !is_plain && !is_variable =>
            {
                QualifierKey::Key(unescape(name.as_str()).map_or(Value::String(name), Value::from))
            }
            key => key,
        }
    }

    fn is_object(&self, operand: &Expr) -> bool {
        matches!(self.checked.map(|checked| checked.type_of(operand.id)), Some(Type::Object(_)))
    }

    /// `condition ? a : b`: branches that are attributes are read without their own charge.
    pub(super) fn conditional(&mut self, args: &[Expr]) -> Result<Node, PlanError> {
        let [condition, then, otherwise] = args else {
            return Err(PlanError("a condition takes three operands".into()));
        };
        let condition = self.plan(condition)?;
        let then = into_attribute(self.plan(then)?);
        let otherwise = into_attribute(self.plan(otherwise)?);
        Ok(attribute(Root::Conditional(Box::new((condition, then, otherwise))), Vec::new()))
    }
}

fn attribute(root: Root, qualifiers: Vec<Qualifier>) -> Node {
    Node::Attribute(Box::new(Attribute { root, qualifiers }))
}

/// Converts a node to an attribute, which begins with the value of the node.
fn into_attribute(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) => *attribute,
        node => Attribute { root: Root::Node(node), qualifiers: Vec::new() },
    }
}

/// `a.b.c` as a name.
pub(super) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.to_string()),
        ExprKind::Select { operand, field, test_only: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}
