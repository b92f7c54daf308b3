//! Relations between types: assignment, unification of type variables, substitution.

use std::sync::Arc;

use crate::types::{OPTIONAL, Type};

/// The bindings of type variables. Variables are `Type::Param`s named `_var0`, `_var1`, …
#[derive(Default)]
pub(super) struct Variables {
    bound: Vec<Option<Type>>,
    /// Bindings that were overwritten since a trial began; restored if it fails.
    trail: Vec<(usize, Option<Type>)>,
}

impl Variables {
    /// A new free variable.
    pub(super) fn fresh(&mut self) -> Type {
        let name = format!("_var{}", self.bound.len());
        self.bound.push(None);
        Type::Param(name.into())
    }

    fn index(of: &Type) -> Option<usize> {
        match of {
            Type::Param(name) => name.strip_prefix("_var")?.parse().ok(),
            _ => None,
        }
    }

    fn find(&self, of: &Type) -> Option<&Type> {
        self.bound.get(Self::index(of)?)?.as_ref()
    }

    fn bind(&mut self, variable: &Type, to: Type) {
        if let Some(index) = Self::index(variable)
            && let Some(slot) = self.bound.get_mut(index)
        {
            self.trail.push((index, slot.replace(to)));
        }
    }

    /// Whether a value of `from` can be used as `to` (the relation is nearly symmetric). Variables are bound only if it
    /// can.
    pub(super) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.assignable_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// As `assignable`, for all pairs at once.
    pub(super) fn assignable_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.trail.clear();
        let fits = self.fits_all(from, to);
        if !fits {
            while let Some((index, before)) = self.trail.pop() {
                if let Some(slot) = self.bound.get_mut(index) {
                    *slot = before;
                }
            }
        }
        fits
    }

    fn fits_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to))
    }

    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if is_param(other) {
            match self.substitutes(one, other) {
                Substitution::Valid => return true,
                Substitution::Conflict => return false,
                Substitution::Cyclic => {}
            }
        }
        if is_param(one) {
            return matches!(self.substitutes(other, one), Substitution::Valid);
        }
        if is_dyn_or_error(one) || is_dyn_or_error(other) {
            return true;
        }
        match (one, other) {
            (Type::Null, of) | (of, Type::Null) => is_nullable(of),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(other)) => self.fits(one, other),
            (Type::Map(one), Type::Map(other)) => self.fits(&one.0, &other.0) && self.fits(&one.1, &other.1),
            (Type::Opaque(one, one_params), Type::Opaque(other, other_params)) => {
                one == other && self.fits_all(one_params, other_params)
            }
            (one, other) => unwrap(one) == unwrap(other),
        }
    }

    /// Whether `of` can be bound to `variable`.
    fn substitutes(&mut self, of: &Type, variable: &Type) -> Substitution {
        if of == variable {
            return Substitution::Valid;
        }
        if let Some(bound) = self.find(variable).cloned() {
            if is_exact(of, &bound) {
                return Substitution::Valid;
            }
            if !self.fits(of, &bound) {
                return Substitution::Conflict;
            }
            let general = if is_equal_or_less_specific(of, &bound) { of.clone() } else { bound };
            if self.not_within(variable, &general) {
                self.bind(variable, general);
            }
            return Substitution::Valid;
        }
        if self.not_within(variable, of) {
            self.bind(variable, of.clone());
            return Substitution::Valid;
        }
        Substitution::Cyclic
    }

    fn not_within(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return false;
        }
        match within {
            Type::Param(_) => self.find(within).is_none_or(|bound| self.not_within(variable, bound)),
            Type::List(of) | Type::Type(Some(of)) => self.not_within(variable, of),
            Type::Map(of) => self.not_within(variable, &of.0) && self.not_within(variable, &of.1),
            Type::Opaque(_, params) => params.iter().all(|param| self.not_within(variable, param)),
            _ => true,
        }
    }

    /// `of` with bound variables replaced; free ones become `dyn` if `free_to_dyn`.
    pub(super) fn substitute(&self, of: &Type, free_to_dyn: bool) -> Type {
        if let Some(bound) = self.find(of) {
            return self.substitute(bound, free_to_dyn);
        }
        match of {
            Type::Param(_) if free_to_dyn => Type::Dyn,
            of if !has_params(of) => of.clone(),
            Type::List(of) => Type::list(self.substitute(of, free_to_dyn)),
            Type::Map(of) => {
                Type::map(self.substitute(&of.0, free_to_dyn), self.substitute(&of.1, free_to_dyn))
            }
            Type::Opaque(name, params) => Type::Opaque(
                name.clone(),
                params.iter().map(|param| self.substitute(param, free_to_dyn)).collect(),
            ),
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(self.substitute(of, free_to_dyn)))),
            of => of.clone(),
        }
    }
}

enum Substitution {
    Valid,
    /// The variable is bound to another type.
    Conflict,
    /// The variable is a part of the type.
    Cyclic,
}

/// `of` with the parameters of a declaration replaced: `names[i]` by `by[i]`.
pub(super) fn instantiate(of: &Type, names: &[Arc<str>], by: &[Type]) -> Type {
    match of {
        Type::Param(name) => {
            let index = names.iter().position(|known| known == name);
            index.and_then(|index| by.get(index)).unwrap_or(of).clone()
        }
        of if !has_params(of) => of.clone(),
        Type::List(of) => Type::list(instantiate(of, names, by)),
        Type::Map(of) => Type::map(instantiate(&of.0, names, by), instantiate(&of.1, names, by)),
        Type::Opaque(name, params) => {
            Type::Opaque(name.clone(), params.iter().map(|param| instantiate(param, names, by)).collect())
        }
        Type::Type(Some(of)) => Type::Type(Some(Arc::new(instantiate(of, names, by)))),
        of => of.clone(),
    }
}

/// Collects the names of the parameters within `of`.
pub(super) fn collect_params(of: &Type, names: &mut Vec<Arc<str>>) {
    match of {
        Type::Param(name) if !names.contains(name) => names.push(name.clone()),
        Type::List(of) | Type::Type(Some(of)) => collect_params(of, names),
        Type::Map(of) => {
            collect_params(&of.0, names);
            collect_params(&of.1, names);
        }
        Type::Opaque(_, params) => params.iter().for_each(|param| collect_params(param, names)),
        _ => {}
    }
}

fn has_params(of: &Type) -> bool {
    match of {
        Type::Param(_) => true,
        Type::List(of) | Type::Type(Some(of)) => has_params(of),
        Type::Map(of) => has_params(&of.0) || has_params(&of.1),
        Type::Opaque(_, params) => params.iter().any(has_params),
        _ => false,
    }
}

fn is_param(of: &Type) -> bool {
    matches!(of, Type::Param(_))
}

pub(super) fn is_dyn_or_error(of: &Type) -> bool {
    matches!(of, Type::Dyn | Type::Any | Type::Error)
}

fn is_nullable(of: &Type) -> bool {
    matches!(
        of,
        Type::Null
            | Type::Any
            | Type::Wrapper(_)
            | Type::Opaque(..)
            | Type::Object(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// A wrapper has the kind and name of the type that it wraps, but can be null.
fn unwrap(of: &Type) -> &Type {
    match of {
        Type::Wrapper(of) => of,
        of => of,
    }
}

/// Whether two types are the same, ignoring wrappers.
pub(crate) fn is_exact(one: &Type, other: &Type) -> bool {
    match (unwrap(one), unwrap(other)) {
        (Type::List(one), Type::List(other)) => is_exact(one, other),
        (Type::Map(one), Type::Map(other)) => is_exact(&one.0, &other.0) && is_exact(&one.1, &other.1),
        (Type::Type(Some(one)), Type::Type(Some(other))) => is_exact(one, other),
        (Type::Opaque(one, one_params), Type::Opaque(other, other_params)) => {
            one == other
                && one_params.len() == other_params.len()
                && one_params.iter().zip(other_params.iter()).all(|(one, other)| is_exact(one, other))
        }
        (one, other) => one == other,
    }
}

fn is_equal_or_less_specific(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Any | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Any | Type::Param(_)) => false,
        (Type::List(one), Type::List(other)) => is_equal_or_less_specific(one, other),
        (Type::Map(one), Type::Map(other)) => {
            is_equal_or_less_specific(&one.0, &other.0) && is_equal_or_less_specific(&one.1, &other.1)
        }
        (Type::Type(_), Type::Type(_)) => true,
        (Type::Opaque(one, one_params), Type::Opaque(other, other_params)) => {
            one == other
                && one_params.len() == other_params.len()
                && one_params
                    .iter()
                    .zip(other_params.iter())
                    .all(|(one, other)| is_equal_or_less_specific(one, other))
        }
        (one, other) => is_exact(one, other),
    }
}

/// The more general of two compatible types.
pub(super) fn most_general(one: Type, other: Type) -> Type {
    if is_equal_or_less_specific(&one, &other) { one } else { other }
}

/// The type of an optional's value.
pub(super) fn optional_value(of: &Type) -> Option<&Type> {
    match of {
        Type::Opaque(name, params) if &**name == OPTIONAL => params.first(),
        _ => None,
    }
}
