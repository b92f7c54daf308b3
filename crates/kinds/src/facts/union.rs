//! Unions: structs of which exactly one field must be set.

use super::BLOCKS;
use crate::fields;
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

/// A line `one-of` of a block.
pub(super) struct Union {
    pub(super) members: Vec<Member>,
    /// The errors of unions whose members hooks validate. The others have the errors of declarative validation.
    pub(super) texts: Option<Texts>,
}

/// A field of a union.
pub(super) struct Member {
    pub(super) field: &'static str,
    /// The name of the field in the error about a second one.
    error_name: &'static str,
    /// Whether the field is also validated, rather than refused, if an earlier one is set.
    may_be_second: bool,
}

/// The errors of a union without a field, and with a second one.
pub(super) struct Texts {
    none: &'static str,
    second: &'static str,
}

impl Union {
    pub(super) fn parse(line: &'static str) -> Union {
        let (members, texts) =
            line.split_once(" : ").map_or((line, None), |(line, texts)| (line, Some(texts)));
        let texts =
            texts.and_then(|texts| texts.split_once(" | ")).map(|(none, second)| Texts { none, second });
        let parse_member = |member: &'static str| {
            let (field, error_name) = member.split_once('=').unwrap_or((member, member));
            let may_be_second = field.starts_with('+');
            let [field, error_name] = [field, error_name].map(|name| name.trim_start_matches('+'));
            Member { field, error_name, may_be_second }
        };
        Union { members: members.split(',').map(parse_member).collect(), texts }
    }
}

/// A field of a union that is set.
pub(crate) struct UnionMember<'a> {
    pub(crate) field: &'static str,
    pub(crate) value: &'a Value,
    /// Whether the field was refused because an earlier one is set.
    pub(crate) is_refused: bool,
}

/// Requires exactly one of the fields that the block's line `one-of` names. Calls `validate` for each field that is set, in
/// the order of the line.
pub(crate) fn check_union<'a>(
    object: &'a Value,
    block: &str,
    path: &Path<'_>,
    errors: &mut FieldErrors,
    mut validate: impl FnMut(UnionMember<'a>, &mut FieldErrors),
) {
    let union = BLOCKS.get(block).and_then(|block| block.union.as_ref());
    let Some(Union { members, texts: Some(texts) }) = union else {
        debug_assert!(false, "no union with errors in {block}");
        return;
    };
    let mut found = false;
    for Member { field, error_name, may_be_second } in members {
        let Some(value) = fields::member(object, field) else { continue };
        let is_refused = found && !may_be_second;
        if is_refused {
            errors.forbidden(&path.field(error_name), texts.second);
        }
        found = true;
        validate(UnionMember { field, value, is_refused }, errors);
    }
    if !found {
        errors.required(path, texts.none);
    }
}

/// Requires exactly one of the members, with the errors of declarative validation.
pub(super) fn require_one(object: &Value, members: &[Member], path: &Path<'_>, errors: &mut FieldErrors) {
    let fields = || members.iter().map(|member| member.field);
    let given: Vec<&str> = fields().filter(|field| fields::member(object, field).is_some()).collect();
    let all = fields().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    match given.as_slice() {
        [] => errors.invalid(path, "", &format!("must specify one of: {all}")),
        [_] => {}
        _ => {
            let given = format!("{{{}}}", given.join(", "));
            errors.invalid(path, given.as_str(), &format!("must specify exactly one of: {all}"));
        }
    }
}
