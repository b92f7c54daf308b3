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

    fn type_variable_index(ty: &Type) -> Option<usize> {
        match ty {
            Type::Param(name) => name.strip_prefix("_var")?.parse().ok(),
            _ => None,
        }
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        self.bound.get(Self::type_variable_index(ty)?)?.as_ref()
    }

    fn bind(&mut self, variable: &Type, to: Type) {
        if let Some(index) = Self::type_variable_index(variable)
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
        from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.is_assignable(from, to))
    }

    fn is_assignable(&mut self, one: &Type, other: &Type) -> bool {
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
            (Type::Null, ty) | (ty, Type::Null) => is_nullable(ty),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(other)) => self.is_assignable(one, other),
            (Type::Map(one), Type::Map(other)) => {
                self.is_assignable(&one.0, &other.0) && self.is_assignable(&one.1, &other.1)
            }
            (Type::Opaque(one, one_params), Type::Opaque(other, other_params)) => {
                one == other && self.fits_all(one_params, other_params)
            }
            (one, other) => unwrap(one) == unwrap(other),
        }
    }

    /// Whether `ty` can be bound to `variable`.
    fn substitutes(&mut self, ty: &Type, variable: &Type) -> Substitution {
        if ty == variable {
            return Substitution::Valid;
        }
        if let Some(bound) = self.find(variable).cloned() {
            if is_exact(ty, &bound) {
                return Substitution::Valid;
            }
            if !self.is_assignable(ty, &bound) {
                return Substitution::Conflict;
            }
            let general = if is_equal_or_less_specific(ty, &bound) { ty.clone() } else { bound };
            if self.not_within(variable, &general) {
                self.bind(variable, general);
            }
            return Substitution::Valid;
        }
        if self.not_within(variable, ty) {
            self.bind(variable, ty.clone());
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
            Type::List(ty) | Type::Type(Some(ty)) => self.not_within(variable, ty),
            Type::Map(ty) => self.not_within(variable, &ty.0) && self.not_within(variable, &ty.1),
            Type::Opaque(_, params) => params.iter().all(|param| self.not_within(variable, param)),
            _ => true,
        }
    }

    /// Replaces the bound variables of `ty` by their types. Free variables remain.
    pub(super) fn substitute(&self, ty: &Type) -> Type {
        self.substitute_variables(ty, false)
    }

    /// Replaces the bound variables of `ty` by their types and the free ones by `dyn`.
    pub(super) fn substitute_all(&self, ty: &Type) -> Type {
        self.substitute_variables(ty, true)
    }

    fn substitute_variables(&self, ty: &Type, free_to_dyn: bool) -> Type {
        if let Some(bound) = self.find(ty) {
            return self.substitute_variables(bound, free_to_dyn);
        }
        match ty {
            Type::Param(_) if free_to_dyn => Type::Dyn,
            ty if !has_params(ty) => ty.clone(),
            Type::List(ty) => Type::list(self.substitute_variables(ty, free_to_dyn)),
            Type::Map(ty) => Type::map(
                self.substitute_variables(&ty.0, free_to_dyn),
                self.substitute_variables(&ty.1, free_to_dyn),
            ),
            Type::Opaque(name, params) => Type::Opaque(
                name.clone(),
                params.iter().map(|param| self.substitute_variables(param, free_to_dyn)).collect(),
            ),
            Type::Type(Some(ty)) => Type::Type(Some(Arc::new(self.substitute_variables(ty, free_to_dyn)))),
            ty => ty.clone(),
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

/// Replaces the parameters of a declaration in `ty`: `names[i]` by `by[i]`.
pub(super) fn instantiate(ty: &Type, names: &[Arc<str>], by: &[Type]) -> Type {
    match ty {
        Type::Param(name) => {
            let index = names.iter().position(|known| known == name);
            index.and_then(|index| by.get(index)).unwrap_or(ty).clone()
        }
        ty if !has_params(ty) => ty.clone(),
        Type::List(ty) => Type::list(instantiate(ty, names, by)),
        Type::Map(ty) => Type::map(instantiate(&ty.0, names, by), instantiate(&ty.1, names, by)),
        Type::Opaque(name, params) => {
            Type::Opaque(name.clone(), params.iter().map(|param| instantiate(param, names, by)).collect())
        }
        Type::Type(Some(ty)) => Type::Type(Some(Arc::new(instantiate(ty, names, by)))),
        ty => ty.clone(),
    }
}

/// Collects the names of the parameters within `ty`.
pub(super) fn collect_params(ty: &Type, names: &mut Vec<Arc<str>>) {
    match ty {
        Type::Param(name) if !names.contains(name) => names.push(name.clone()),
        Type::List(ty) | Type::Type(Some(ty)) => collect_params(ty, names),
        Type::Map(ty) => {
            collect_params(&ty.0, names);
            collect_params(&ty.1, names);
        }
        Type::Opaque(_, params) => params.iter().for_each(|param| collect_params(param, names)),
        _ => {}
    }
}

fn has_params(ty: &Type) -> bool {
    match ty {
        Type::Param(_) => true,
        Type::List(ty) | Type::Type(Some(ty)) => has_params(ty),
        Type::Map(ty) => has_params(&ty.0) || has_params(&ty.1),
        Type::Opaque(_, params) => params.iter().any(has_params),
        _ => false,
    }
}

fn is_param(ty: &Type) -> bool {
    matches!(ty, Type::Param(_))
}

pub(super) fn is_dyn_or_error(ty: &Type) -> bool {
    matches!(ty, Type::Dyn | Type::Any | Type::Error)
}

fn is_nullable(ty: &Type) -> bool {
    matches!(
        ty,
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
fn unwrap(ty: &Type) -> &Type {
    match ty {
        Type::Wrapper(ty) => ty,
        ty => ty,
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
pub(super) fn optional_value(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Opaque(name, params) if &**name == OPTIONAL => params.first(),
        _ => None,
    }
}
