//! The static estimate: walks a typed tree and adds ranges of costs, following sizes as far as they are known.

use std::collections::HashMap;
use std::sync::Arc;

use super::{
    CallEstimate, CostEstimate, CostModel, LIST_CREATE, MAP_CREATE, Node, OBJECT_CREATE, REGEX_LENGTH_FACTOR,
    SELECT, STRING_TRAVERSAL_FACTOR, SizeEstimate,
};
use crate::ast::{Comprehension, Expr, ExprKind, Id, Literal, MapEntry};
use crate::env::{Checked, Reference};
use crate::parser::macros::ACCUMULATOR;
use crate::types::{OPTIONAL, Type};

/// Estimates the cost of `checked`.
pub(crate) fn estimate(checked: &Checked, model: &dyn CostModel) -> CostEstimate {
    let mut estimator = Estimator {
        checked,
        model,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.estimate_expr(&checked.ast.root)
}

type Path = Vec<Arc<str>>;

/// The sizes of the elements of a list or map.
#[derive(Clone, Copy)]
struct EntrySize {
    of_list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl EntrySize {
    fn union(self, other: EntrySize) -> EntrySize {
        EntrySize {
            of_list: self.of_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// A variable of a macro.
struct Local {
    name: Arc<str>,
    path: Path,
    size: Option<SizeEstimate>,
    entries: Option<EntrySize>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    model: &'a dyn CostModel,
    paths: HashMap<Id, Path>,
    sizes: HashMap<Id, SizeEstimate>,
    entries: HashMap<Id, EntrySize>,
    locals: Vec<Local>,
}

/// The arguments of a call: their nodes and costs.
struct Args<'a> {
    exprs: &'a [Expr],
    nodes: Vec<Node<'a>>,
    costs: Vec<CostEstimate>,
}

impl Args<'_> {
    fn estimate_expr(&self) -> CostEstimate {
        self.costs.iter().fold(CostEstimate::default(), |sum, cost| sum.plus(*cost))
    }

    fn cost_of(&self, index: usize) -> CostEstimate {
        self.costs.get(index).copied().unwrap_or_default()
    }

    fn size_of(&self, index: usize) -> SizeEstimate {
        self.nodes.get(index).map_or(SizeEstimate::UNKNOWN, size_of)
    }
}

fn size_of(node: &Node<'_>) -> SizeEstimate {
    node.computed.unwrap_or(SizeEstimate::UNKNOWN)
}

impl<'a> Estimator<'a> {
    fn estimate_expr(&mut self, expr: &'a Expr) -> CostEstimate {
        match &expr.kind {
            ExprKind::Literal(_) => CostEstimate::default(),
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                CostEstimate::fixed(SELECT)
            }
            ExprKind::Select { operand, field, test_only } => {
                self.estimate_select(expr.id, operand, field, *test_only)
            }
            ExprKind::Call { function, target, args } => {
                self.estimate_call(expr, function, target.as_deref(), args)
            }
            ExprKind::List { elements, .. } => self.estimate_list(expr.id, elements),
            ExprKind::Map(entries) => self.estimate_map(expr.id, entries),
            ExprKind::Struct { fields, .. } => {
                let fields = fields
                    .iter()
                    .fold(CostEstimate::default(), |sum, field| sum.plus(self.estimate_expr(&field.value)));
                fields.plus(CostEstimate::fixed(OBJECT_CREATE))
            }
            ExprKind::Comprehension(it) if is_binding(it) => self.estimate_binding(expr.id, it),
            ExprKind::Comprehension(it) => self.estimate_comprehension(expr.id, it),
        }
    }

    fn estimate_select(
        &mut self,
        id: Id,
        operand: &'a Expr,
        field: &Arc<str>,
        test_only: bool,
    ) -> CostEstimate {
        if test_only {
            let test = u64::from(self.checked.env().options().presence_test_has_cost);
            return CostEstimate::fixed(test).plus(self.estimate_expr(operand));
        }
        let mut sum = self.estimate_expr(operand);
        if matches!(self.checked.type_of(operand.id), Type::Map(_) | Type::Object(_) | Type::Param(_)) {
            sum = sum.plus(CostEstimate::fixed(SELECT));
        }
        let path = self.path_to(operand, field);
        self.paths.insert(id, path);
        sum
    }

    fn estimate_call(
        &mut self,
        expr: &'a Expr,
        function: &str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> CostEstimate {
        if function == "dyn"
            && let [arg] = args
        {
            let cost = self.estimate_expr(arg);
            self.copy_sizes(expr.id, arg);
            return CostEstimate::fixed(1).plus(cost);
        }
        let mut known = Args { exprs: args, nodes: Vec::new(), costs: Vec::new() };
        for arg in args {
            let cost = self.estimate_expr(arg);
            known.costs.push(cost);
            let node = self.node(arg);
            known.nodes.push(node);
        }
        let checked = self.checked;
        let Some(Reference::Function(declared, overloads)) = checked.reference(expr.id) else {
            return CostEstimate::default();
        };
        let mut sum = CostEstimate::default();
        let target = target.map(|target| {
            sum = sum.plus(self.estimate_expr(target));
            self.node(target)
        });
        let mut cost = CostEstimate { min: u64::MAX, max: 0 };
        let mut result: Option<SizeEstimate> = None;
        for overload in overloads.iter().filter_map(|index| declared.overloads.get(*index as usize)) {
            let estimate = self.estimate_function(expr.id, function, overload.id, target.as_ref(), &known);
            cost = cost.union(estimate.cost);
            result = match (result, estimate.result) {
                (Some(one), Some(other)) => Some(one.union(other)),
                (one, other) => one.or(other),
            };
            if let (Some(container), Some(part)) = (args.first(), part_of(overload.id)) {
                result = self.entries(container).map(|entries| entries.value);
                let path = self.path_to(container, &part.into());
                self.paths.insert(expr.id, path);
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        if let Some(size) = result {
            self.sizes.insert(expr.id, size);
        }
        sum.plus(cost)
    }

    fn estimate_list(&mut self, id: Id, elements: &'a [Expr]) -> CostEstimate {
        let mut sum = CostEstimate::fixed(LIST_CREATE);
        let mut value = empty_range(elements.is_empty());
        for element in elements {
            sum = sum.plus(self.estimate_expr(element));
            value = value.union(self.size_or_unknown(element));
        }
        self.entries.insert(id, EntrySize { of_list: true, key: SizeEstimate::fixed(1), value });
        sum
    }

    fn estimate_map(&mut self, id: Id, entries: &'a [MapEntry]) -> CostEstimate {
        let mut sum = CostEstimate::fixed(MAP_CREATE);
        let (mut key, mut value) = (empty_range(entries.is_empty()), empty_range(entries.is_empty()));
        for entry in entries {
            sum = sum.plus(self.estimate_expr(&entry.key)).plus(self.estimate_expr(&entry.value));
            key = key.union(self.size_or_unknown(&entry.key));
            value = value.union(self.size_or_unknown(&entry.value));
        }
        self.entries.insert(id, EntrySize { of_list: false, key, value });
        sum
    }

    fn estimate_comprehension(&mut self, id: Id, it: &'a Comprehension) -> CostEstimate {
        let mut sum = self.estimate_expr(&it.iter_range).plus(self.estimate_expr(&it.accu_init));
        self.push_local(&it.accu_var, &it.accu_init);
        let outside = self.locals.len();
        match &it.iter_var2 {
            Some(second) => {
                self.push_entry(&it.iter_var, &it.iter_range, true);
                self.push_entry(second, &it.iter_range, false);
            }
            None => {
                let over_list = self.is_list(&it.iter_range);
                self.push_entry(&it.iter_var, &it.iter_range, !over_list);
            }
        }
        let each = self.estimate_expr(&it.loop_condition);
        let each = each.plus(self.estimate_expr(&it.loop_step));
        self.locals.truncate(outside);
        sum = sum.plus(self.estimate_expr(&it.result));
        self.locals.pop();
        let count = self.size_or_unknown(&it.iter_range);
        match &it.accu_init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&it.accu_init) {
                    self.sizes.insert(id, size);
                }
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.sizes.insert(id, count);
                if let Some(entries) = self.entries(&it.loop_step) {
                    self.entries.insert(id, entries);
                }
            }
            _ => {}
        }
        sum.plus(count.times_cost(each))
    }

    fn estimate_binding(&mut self, id: Id, it: &'a Comprehension) -> CostEstimate {
        let mut sum = self.estimate_expr(&it.iter_range).plus(self.estimate_expr(&it.accu_init));
        self.push_local(&it.accu_var, &it.accu_init);
        sum = sum.plus(self.estimate_expr(&it.result));
        self.locals.pop();
        self.copy_sizes(id, &it.result);
        sum
    }

    fn push_local(&mut self, name: &Arc<str>, expr: &Expr) {
        let local = Local {
            name: name.clone(),
            path: self.path(expr),
            size: self.size(expr),
            entries: self.entries(expr),
        };
        self.locals.push(local);
    }

    /// Declares a variable for the keys (or indices) or for the values of `range`.
    fn push_entry(&mut self, name: &Arc<str>, range: &Expr, keys: bool) {
        let entries = self.entries(range);
        let part = match (keys, self.is_list(range)) {
            (true, true) => "@indices",
            (true, false) => "@keys",
            (false, true) => "@items",
            (false, false) => "@values",
        };
        let path = self.path_to(range, &part.into());
        let size = entries.map(|entries| if keys { entries.key } else { entries.value });
        self.locals.push(Local { name: name.clone(), path, size, entries: None });
    }

    fn is_list(&self, range: &Expr) -> bool {
        match self.entries(range) {
            Some(entries) => entries.of_list,
            None => matches!(self.checked.type_of(range.id), Type::List(_)),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn local_of(&self, expr: &Expr) -> Option<&Local> {
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name),
            _ => None,
        }
    }

    fn path(&self, expr: &Expr) -> Path {
        match self.local_of(expr) {
            Some(local) => local.path.clone(),
            None => self.paths.get(&expr.id).cloned().unwrap_or_default(),
        }
    }

    fn path_to(&self, expr: &Expr, part: &Arc<str>) -> Path {
        let mut path = self.path(expr);
        path.push(part.clone());
        path
    }

    fn node(&mut self, expr: &'a Expr) -> Node<'a> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| &**first == ACCUMULATOR || &**first == "__result__") {
            path.clear();
        }
        Node { path, ty: self.checked.type_of(expr.id).clone(), expr: Some(expr), computed: self.size(expr) }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn copy_sizes(&mut self, to: Id, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to, size);
        }
        if let Some(entries) = self.entries(from) {
            self.entries.insert(to, entries);
        }
    }

    /// The size of an expression, if known: computed before, or from the expression, the model, the type or the
    /// variable.
    fn size(&mut self, expr: &Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.sizes.get(&expr.id).copied().or_else(|| literal_size(expr)) {
            return Some(size);
        }
        let ty = self.checked.type_of(expr.id);
        let node = Node { path: self.path(expr), ty: ty.clone(), expr: Some(expr), computed: None };
        if let Some(size) = self.model.estimate_size(&node) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(ty) {
            return Some(SizeEstimate::fixed(1));
        }
        self.local_of(expr)?.size
    }

    fn entries(&self, expr: &Expr) -> Option<EntrySize> {
        self.entries.get(&expr.id).copied().or_else(|| self.local_of(expr)?.entries)
    }

    fn estimate_function(
        &mut self,
        id: Id,
        function: &str,
        overload: &str,
        target: Option<&Node<'_>>,
        args: &Args<'_>,
    ) -> CallEstimate {
        let by_library = self.checked.env().estimator(overload);
        let estimate = by_library
            .and_then(|estimator| estimator(self.model, target, &args.nodes))
            .or_else(|| self.model.estimate_call(function, overload, target, &args.nodes));
        if let Some(estimate) = estimate {
            return CallEstimate { cost: estimate.cost.plus(args.estimate_expr()), result: estimate.result };
        }
        match overload {
            "logical_or" | "logical_and" => {
                let (left, right) = (args.cost_of(0), args.cost_of(1));
                CallEstimate::of(CostEstimate { min: left.min, max: left.plus(right).max })
            }
            "conditional" => {
                let size = args.size_of(1).union(args.size_of(2));
                self.join_entries(id, args, 1, 2);
                let either = args.cost_of(1).union(args.cost_of(2));
                CallEstimate { cost: args.cost_of(0).plus(either), result: Some(size) }
            }
            "add_string" | "add_bytes" | "add_list" => {
                let size = args.size_of(0).plus(args.size_of(1));
                self.join_entries(id, args, 0, 1);
                let own = match overload {
                    "add_list" => CostEstimate::fixed(1),
                    _ => size.times_factor(STRING_TRAVERSAL_FACTOR),
                };
                CallEstimate { cost: own.plus(args.estimate_expr()), result: Some(size) }
            }
            _ => {
                let (cost, result) =
                    simple_call(overload, target, args).unwrap_or((CostEstimate::fixed(1), None));
                CallEstimate { cost: cost.plus(args.estimate_expr()), result }
            }
        }
    }

    fn join_entries(&mut self, id: Id, args: &Args<'_>, one: usize, other: usize) {
        if let (Some(one), Some(other)) = (args.exprs.get(one), args.exprs.get(other))
            && let (Some(one), Some(other)) = (self.entries(one), self.entries(other))
        {
            self.entries.insert(id, one.union(other));
        }
    }
}

/// The cost of a call without its arguments, and the size of its result, for functions that do not take constant time.
fn simple_call(
    overload: &str,
    target: Option<&Node<'_>>,
    args: &Args<'_>,
) -> Option<(CostEstimate, Option<SizeEstimate>)> {
    let traversal = |size: SizeEstimate| size.times_factor(STRING_TRAVERSAL_FACTOR);
    let count = args.nodes.len();
    Some(match (overload, target, count) {
        ("string_format", Some(target), _) => (traversal(size_of(target)), None),
        ("string_to_bytes", _, 1) => {
            let size = args.size_of(0);
            // A character takes four bytes at most. The product wraps around, as in cel-go.
            (traversal(size), Some(SizeEstimate { min: size.min, max: size.max.wrapping_mul(4) }))
        }
        ("bytes_to_string", _, 1) => {
            let size = args.size_of(0);
            (traversal(size), Some(SizeEstimate { min: size.min / 4, max: size.max }))
        }
        ("strings_quote", _, 1) => {
            let size = args.size_of(0);
            let max = size.max.wrapping_mul(2).wrapping_add(2);
            (traversal(size), Some(SizeEstimate { min: size.min.wrapping_add(2), max }))
        }
        ("starts_with_string" | "ends_with_string", _, 1) => (traversal(args.size_of(0)), None),
        ("in_list", _, 2) => (args.size_of(1).times_factor(1.0), None),
        ("matches_string", Some(target), 1) => {
            // One more than the length, so that an empty string does not make an expensive pattern free.
            let string = traversal(size_of(target).plus(SizeEstimate::fixed(1)));
            (string.times(args.size_of(0).times_factor(REGEX_LENGTH_FACTOR)), None)
        }
        ("contains_string", Some(target), 1) => {
            (traversal(size_of(target)).times(traversal(args.size_of(0))), None)
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            2,
        ) => {
            let max = args.size_of(0).max.min(args.size_of(1).max);
            (CostEstimate { min: u64::from(max > 0), max }.times_factor(STRING_TRAVERSAL_FACTOR), None)
        }
        _ => return None,
    })
}

/// The path element for an index into a container.
fn part_of(overload: &str) -> Option<&'static str> {
    match overload {
        "index_list" => Some("@items"),
        "index_map" => Some("@values"),
        _ => None,
    }
}

/// The neutral range for joining sizes.
fn empty_range(of_nothing: bool) -> SizeEstimate {
    SizeEstimate { min: if of_nothing { 0 } else { u64::MAX }, max: 0 }
}

fn literal_size(expr: &Expr) -> Option<SizeEstimate> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List { elements, .. } => elements.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(SizeEstimate::fixed(size as u64))
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Wrapper(ty) => is_scalar(ty),
        Type::Opaque(name, params) if &**name == OPTIONAL => params.first().is_some_and(is_scalar),
        _ => false,
    }
}

/// Whether a loop has no iterations: the expansion of `cel.bind` and `optMap`.
fn is_binding(it: &Comprehension) -> bool {
    matches!(&it.iter_range.kind, ExprKind::List { elements, .. } if elements.is_empty())
        && matches!(it.loop_condition.kind, ExprKind::Literal(Literal::Bool(false)))
        && &*it.accu_var != "__result__"
}
