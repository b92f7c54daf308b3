//! Evaluates loops.

use super::{Evaluator, Local, Outcome, limited};
use crate::plan::{Fold, FoldKind, General, NewEntry, Node};
use crate::shape::ShapeKind;
use crate::value::{EvalError, List, Map, Object, Value};

/// The list, map or object that is iterated.
enum Range<'a> {
    List(List<'a>),
    Map(Map<'a>),
    /// The names of the fields that an object has.
    Names(Vec<Value<'a>>, Object<'a>),
    /// The values of a lazy map, by the names that its keys have after unescaping.
    Values(Vec<Outcome<'a>>, Object<'a>),
}

impl<'a> Range<'a> {
    fn of(value: Value<'a>, two_variables: bool) -> Result<Range<'a>, EvalError> {
        match value {
            Value::List(list) => Ok(Range::List(list)),
            Value::Map(map) => Ok(Range::Map(map)),
            Value::Object(Object::Lazy(map, name)) => Ok(Range::values(map, name)),
            Value::Object(object) => Ok(Range::Names(field_names(&object), object)),
            value if two_variables => {
                Err(EvalError::Failed(format!("unsupported comprehension range type: {}", go_type(&value))))
            }
            value => Err(EvalError::Failed(format!("got '{}', expected iterable type", go_type(&value)))),
        }
    }

    fn values(map: &'a pintle_value::Map, name: &'static str) -> Range<'a> {
        let lazy = Object::Lazy(map, name);
        Range::Values(map.iter().map(|(key, _)| member(&lazy, &Value::from(key.as_str()))).collect(), lazy)
    }

    fn len(&self) -> usize {
        match self {
            Range::Values(values, _) => values.len(),
            Range::List(list) => list.len(),
            Range::Map(map) => map.len(),
            Range::Names(names, _) => names.len(),
        }
    }

    /// The loop's variable: an element or a key.
    fn one(&self, index: usize) -> Outcome<'a> {
        let missing = Err(EvalError::NoSuchOverload);
        match self {
            Range::List(list) => list.get(index).unwrap_or(missing),
            Range::Map(map) => map.key(index).map_or(missing, Ok),
            Range::Names(names, _) => names.get(index).cloned().map_or(missing, Ok),
            Range::Values(values, _) => values.get(index).cloned().unwrap_or(missing),
        }
    }

    /// Both of the loop's variables: an index and an element, or a key and a value.
    fn two(&self, index: usize) -> (Outcome<'a>, Outcome<'a>) {
        let missing = || Err(EvalError::NoSuchOverload);
        match self {
            Range::List(list) => (Ok(Value::Int(index as i64)), list.get(index).unwrap_or_else(missing)),
            Range::Map(map) => match map.entry(index) {
                Some((key, value)) => (Ok(key), value),
                None => (missing(), missing()),
            },
            // Quirk of kube-apiserver: the key of an entry is its value, and the value what a claim of that name holds.
            Range::Values(values, lazy) => match values.get(index).cloned().unwrap_or_else(missing) {
                Ok(value) => (Ok(value.clone()), member(lazy, &value)),
                Err(err) => (Err(err.clone()), Err(err)),
            },
            Range::Names(names, object) => match names.get(index) {
                Some(name) => {
                    let value = object.get(name.as_str().unwrap_or_default());
                    (Ok(name.clone()), value.and_then(|value| value.map_or_else(missing, Ok)))
                }
                None => (missing(), missing()),
            },
        }
    }
}

/// A value of a lazy map.
fn member<'a>(lazy: &Object<'a>, key: &Value<'_>) -> Outcome<'a> {
    let name = key.as_str().ok_or(EvalError::NoSuchOverload)?;
    lazy.get(name)?.ok_or_else(|| EvalError::Failed(format!("no such key: {name}")))
}

fn field_names<'a>(object: &Object<'a>) -> Vec<Value<'a>> {
    match object {
        Object::Tree(map, shape) => match &shape.kind {
            ShapeKind::Object(declared) => {
                let present = declared.fields.iter().filter(|(_, field)| map.contains_key(&field.json));
                present.map(|(name, _)| Value::from(name.as_str())).collect()
            }
            _ => Vec::new(),
        },
        Object::Shared(_, fields) => fields.iter().map(|(name, _)| Value::from(name.clone())).collect(),
        Object::Input(..) | Object::Lazy(..) => Vec::new(),
    }
}

fn go_type(value: &Value<'_>) -> String {
    match value {
        Value::Null => "types.Null".into(),
        Value::Bool(_) => "types.Bool".into(),
        Value::Int(_) => "types.Int".into(),
        Value::Uint(_) => "types.Uint".into(),
        Value::Double(_) => "types.Double".into(),
        Value::String(_) => "types.String".into(),
        Value::Bytes(_) => "types.Bytes".into(),
        Value::Timestamp(_) => "types.Timestamp".into(),
        Value::Duration(_) => "types.Duration".into(),
        Value::Type(_) => "*types.Type".into(),
        Value::Optional(_) => "*types.Optional".into(),
        value => value.type_name().to_string(),
    }
}

impl<'a> Evaluator<'a, '_> {
    pub(super) fn eval_fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = Range::of(self.eval(&fold.range)?, fold.second.is_some())?;
        match &fold.kind {
            FoldKind::General(general) => self.eval_general(fold, general, &range),
            FoldKind::All(predicate) => self.quantify(fold, predicate, &range, false),
            FoldKind::Exists(predicate) => self.quantify(fold, predicate, &range, true),
            FoldKind::ExistsOne(predicate) => self.exists_one(fold, predicate, &range),
            FoldKind::Append { filter, items, init } => {
                self.charge(*init)?;
                self.append(fold, filter.as_ref(), items, &range)
            }
            FoldKind::Insert { filter, entry, init } => {
                self.charge(*init)?;
                self.insert(fold, filter.as_ref(), entry, &range)
            }
        }
    }

    fn bind_variables(&mut self, fold: &Fold, range: &Range<'a>, index: usize) {
        match fold.second {
            None => self.set(fold.variable, range.one(index)),
            Some(second) => {
                let (first, value) = range.two(index);
                self.set(fold.variable, first);
                self.set(second, value);
            }
        }
    }

    fn eval_general(&mut self, fold: &'a Fold, general: &'a General, range: &Range<'a>) -> Outcome<'a> {
        if let Some(accumulator) = self.locals.get_mut(general.accumulator) {
            *accumulator = Local::Lazy(&general.init);
        }
        for index in 0..range.len() {
            self.bind_variables(fold, range, index);
            if let Ok(Value::Bool(false)) = limited(self.eval(&general.condition))? {
                break;
            }
            let next = limited(self.eval(&general.step))?;
            self.set(general.accumulator, next);
        }
        self.eval(&general.result)
    }

    /// `all` (which `false` ends) and `exists` (which `true` ends).
    fn quantify(&mut self, fold: &'a Fold, predicate: &'a Node, range: &Range<'a>, end: bool) -> Outcome<'a> {
        // The cost of `@not_strictly_false(@result)`, with `!` for `exists`, and then `@result` before the predicate.
        let condition = if end { 3 } else { 2 };
        let mut ended = false;
        let mut failed = None;
        for index in 0..range.len() {
            self.charge(condition)?;
            if ended {
                break;
            }
            self.charge(1)?;
            self.bind_variables(fold, range, index);
            match limited(self.eval(predicate))? {
                Ok(Value::Bool(value)) => ended = value == end,
                Ok(_) => failed = failed.or(Some(EvalError::NoSuchOverload)),
                Err(err) => failed = failed.or(Some(err)),
            }
        }
        self.charge(1)?;
        match failed {
            Some(err) if !ended => Err(err),
            _ => Ok(Value::Bool(end == ended)),
        }
    }

    /// `exists_one`: evaluates every element; the last error is the result.
    fn exists_one(&mut self, fold: &'a Fold, predicate: &'a Node, range: &Range<'a>) -> Outcome<'a> {
        let mut count = Ok(0u64);
        for index in 0..range.len() {
            self.bind_variables(fold, range, index);
            match limited(self.eval(predicate))? {
                Ok(Value::Bool(true)) => {
                    // `@result + 1`
                    self.charge(2)?;
                    count = count.map(|count| count.saturating_add(1));
                }
                Ok(Value::Bool(false)) => {}
                Ok(_) => count = Err(EvalError::NoSuchOverload),
                Err(err) => count = Err(err),
            }
        }
        // `@result == 1`
        self.charge(2)?;
        count.map(|count| Value::Bool(count == 1))
    }

    /// `map` and `filter`: append to the list in place.
    fn append(
        &mut self,
        fold: &'a Fold,
        filter: Option<&'a Node>,
        items: &'a Node,
        range: &Range<'a>,
    ) -> Outcome<'a> {
        let mut list: Result<Vec<Value<'a>>, EvalError> = Ok(Vec::new());
        for index in 0..range.len() {
            self.bind_variables(fold, range, index);
            match self.passes(filter)? {
                Ok(true) => {}
                // The accumulator is unchanged.
                Ok(false) => continue,
                Err(err) => {
                    list = Err(err);
                    continue;
                }
            }
            // `@result + [item]`: the cost of reading the accumulator, creating the list and joining.
            let added = self.appended_items(items)?;
            self.charge(2)?;
            list = match (list, added) {
                (Ok(mut list), Ok(added)) => {
                    list.extend(added);
                    Ok(list)
                }
                (Err(err), _) | (Ok(_), Err(err)) => Err(err),
            };
        }
        self.charge(1)?;
        list.map(Value::list)
    }

    /// Whether the filter of a loop accepts an element.
    fn passes(&mut self, filter: Option<&'a Node>) -> Result<Result<bool, EvalError>, EvalError> {
        let Some(filter) = filter else { return Ok(Ok(true)) };
        Ok(match limited(self.eval(filter))? {
            Ok(Value::Bool(passes)) => Ok(passes),
            Ok(_) => Err(EvalError::NoSuchOverload),
            Err(err) => Err(err),
        })
    }

    /// `transformMap` and `transformMapEntry`: insert into the map in place.
    fn insert(
        &mut self,
        fold: &'a Fold,
        filter: Option<&'a Node>,
        entry: &'a NewEntry,
        range: &Range<'a>,
    ) -> Outcome<'a> {
        let mut map: Result<Map<'a>, EvalError> = Ok(Map::of(Vec::new()));
        for index in 0..range.len() {
            self.bind_variables(fold, range, index);
            map = match self.passes(filter)? {
                Ok(true) => {
                    // `cel.@mapInsert(@result, …)`: the cost of reading the accumulator.
                    self.charge(1)?;
                    limited(self.insert_entry(map, entry))?
                }
                Ok(false) => map,
                Err(err) => Err(err),
            };
        }
        self.charge(1)?;
        map.map(Value::Map)
    }

    fn insert_entry(
        &mut self,
        map: Result<Map<'a>, EvalError>,
        entry: &'a NewEntry,
    ) -> Result<Map<'a>, EvalError> {
        match entry {
            // With three arguments, the first that fails ends the call without a charge.
            NewEntry::One(key, value) => {
                let map = map?;
                let (key, value) = (self.eval(key)?, self.eval(value)?);
                self.charge(1)?;
                map.with(key, value)
            }
            NewEntry::All(entries) => {
                let entries = limited(self.eval(entries))?;
                self.charge(1)?;
                match (map?, entries?) {
                    (map, Value::Map(more)) => {
                        more.entries().try_fold(map, |map, (key, value)| map.with(key, value?))
                    }
                    _ => Err(EvalError::NoSuchOverload),
                }
            }
        }
    }

    fn appended_items(&mut self, items: &'a Node) -> Result<Result<Vec<Value<'a>>, EvalError>, EvalError> {
        match items {
            Node::List(elements) => {
                let added = limited(self.eval_list(elements))?;
                self.charge(crate::cost::LIST_CREATE)?;
                Ok(added)
            }
            items => match limited(self.eval(items))? {
                Ok(Value::List(list)) => Ok(list.iter().collect()),
                Ok(_) => Ok(Err(EvalError::NoSuchOverload)),
                Err(err) => Ok(Err(err)),
            },
        }
    }
}
