//! Compiles the CEL expressions of admission: their variables and result types.

use pintle_cel::env::{Checked, Env};
use pintle_cel::library::kubernetes::authorizer::{AUTHORIZER, RESOURCE_CHECK};
use pintle_cel::library::kubernetes::jsonpatch;
use pintle_cel::shape::{Field, ListKind, ObjectShape, Shape, ShapeKind};
use pintle_cel::types::Type;
use pintle_value::Str;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The type that holds a policy's variables.
pub const VARIABLES_TYPE: &str = "kubernetes.variables";

/// Which variables an expression can use in addition to the common ones.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// `params`
    pub params: bool,
    /// `authorizer` and `authorizer.requestResource`
    pub authorizer: bool,
    /// `JSONPatch`, `Object` and what belongs to them
    pub patches: bool,
}

/// Compiles the expressions of one object; each can use the variables that were declared before it.
#[derive(Default)]
pub struct Expressions {
    /// A policy's variables; `None` if expressions cannot use variables.
    variables: Option<BTreeMap<Str, Field>>,
    /// The environment of [`Expressions::typed`]; `None` for the common one.
    typed: Option<Env>,
}

impl Expressions {
    /// Creates a compiler for expressions that can use variables.
    pub fn composed() -> Self {
        Expressions { variables: Some(BTreeMap::new()), typed: None }
    }

    /// Creates a compiler for checking a policy against one type of object: `object` and `oldObject` have the shape
    /// `object`, and `params` has the shape in `params` if the policy has parameters. A shape of `None` is unknown, and
    /// accepts everything. As in kube-controller-manager, `authorizer.requestResource` is not declared.
    pub fn typed(object: Option<&Arc<Shape>>, params: Option<Option<&Arc<Shape>>>) -> Self {
        let declare = |env: Env, name: &str, shape: Option<&Arc<Shape>>| match shape {
            Some(shape) => env.with_shape(name, Arc::clone(shape)),
            None => env.with_variable(name, Type::Dyn),
        };
        let mut env = Env::kubernetes()
            .with_shape("namespaceObject", namespace())
            .with_shape("request", request())
            .with_variable("authorizer", Type::Object(AUTHORIZER.into()));
        for name in ["object", "oldObject"] {
            env = declare(env, name, object);
        }
        if let Some(params) = params {
            env = declare(env, "params", params);
        }
        Expressions { variables: Some(BTreeMap::new()), typed: Some(env) }
    }

    /// Compiles the expression of a variable. Even if it is invalid, later expressions know the variable.
    pub fn declare(&mut self, name: &str, text: &str, offered: Offered) -> Result<Checked, String> {
        let checked = self.env(offered, text).compile(text);
        let shape = checked.as_ref().map_or(ShapeKind::Dyn, |checked| shape_of_type(checked.output_type()));
        if let Some(variables) = &mut self.variables {
            let shape = Arc::new(Shape::of(shape));
            variables.insert(name.into(), Field { json: name.into(), shape, required: true });
        }
        checked.map_err(|issues| format!("compilation failed: {issues}"))
    }

    /// Compiles an expression that must have one of the given types, or returns its error.
    pub fn check(&self, text: &str, offered: Offered, wanted: &[Type]) -> Result<Checked, String> {
        let checked =
            self.env(offered, text).compile(text).map_err(|i| format!("compilation failed: {i}"))?;
        let found = checked.output_type();
        if wanted.contains(found) {
            return Ok(checked);
        }
        let names: Vec<String> = wanted.iter().map(declared).collect();
        Err(match names.as_slice() {
            [one] => format!("must evaluate to {one} but got {}", declared(found)),
            many => format!("must evaluate to one of [{}] but got {}", many.join(" "), declared(found)),
        })
    }

    /// Compiles an expression of any type, or returns the compiler's messages.
    pub fn compile(&self, text: &str, offered: Offered) -> Result<Checked, String> {
        self.env(offered, text).compile(text).map_err(|issues| issues.to_string())
    }

    /// The environment of the expression `text`. It has only those variables that the text names: a compiled expression
    /// keeps its environment, so copies of all variables would take memory and time in the square of their number.
    fn env(&self, offered: Offered, text: &str) -> Env {
        let mut env = self.typed.as_ref().unwrap_or_else(|| base(offered)).clone();
        if let Some(declared) = &self.variables {
            let named = names_in(text).filter_map(|name| declared.get_key_value(name));
            let fields = named.map(|(name, field)| (name.clone(), field.clone())).collect();
            let object = ObjectShape { name: VARIABLES_TYPE.into(), fields };
            env = env.with_shape("variables", Arc::new(Shape::of(ShapeKind::Object(Arc::new(object)))));
        }
        env
    }
}

/// Everything in an expression that can be the name of a field: its words, and the texts between backticks.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.chain(text.split('`')).filter(|name| !name.is_empty())
}

/// The environment common to all expressions of admission, built once for each offer.
fn base(offered: Offered) -> &'static Env {
    static BASES: [OnceLock<Env>; 8] = [const { OnceLock::new() }; 8];
    let at = [offered.params, offered.authorizer, offered.patches];
    let at = at.into_iter().fold(0, |at, offered| (at << 1) | usize::from(offered));
    let [last, ..] = &BASES;
    BASES.get(at).unwrap_or(last).get_or_init(|| {
        let mut env = Env::kubernetes()
            .with_variable("object", Type::Dyn)
            .with_variable("oldObject", Type::Dyn)
            .with_shape("namespaceObject", namespace())
            .with_shape("request", request());
        if offered.params {
            env = env.with_variable("params", Type::Dyn);
        }
        if offered.authorizer {
            env = env
                .with_variable("authorizer", Type::Object(AUTHORIZER.into()))
                .with_variable("authorizer.requestResource", Type::Object(RESOURCE_CHECK.into()));
        }
        if offered.patches { jsonpatch::with_mutations(env) } else { env }
    })
}

/// The CEL type of a JSON patch expression: a list of operations.
pub fn json_patch_type() -> Type {
    Type::list(Type::Object(jsonpatch::JSON_PATCH.into()))
}

/// The result type of an apply configuration.
pub fn apply_configuration_type() -> Type {
    Type::Object(jsonpatch::OBJECT.into())
}

/// Converts a type to a shape, for the variables of a policy.
fn shape_of_type(of: &Type) -> ShapeKind {
    match of {
        Type::Null => ShapeKind::Null,
        Type::Bool => ShapeKind::Bool,
        Type::Int => ShapeKind::Int,
        Type::Uint => ShapeKind::Uint,
        Type::Double => ShapeKind::Double,
        Type::String => ShapeKind::String,
        Type::Bytes => ShapeKind::Bytes,
        Type::Timestamp => ShapeKind::Timestamp,
        Type::Duration => ShapeKind::Duration,
        Type::List(element) => {
            ShapeKind::List { element: Arc::new(Shape::of(shape_of_type(element))), list: ListKind::Ordered }
        }
        Type::Map(of) if of.0 == Type::String => {
            ShapeKind::Map { value: Arc::new(Shape::of(shape_of_type(&of.1))) }
        }
        _ => ShapeKind::Dyn,
    }
}

/// The name that cel-go prints for a type outside of checker messages.
pub(crate) fn declared(of: &Type) -> String {
    let within = |name: &str, params: &[&Type]| {
        let params: Vec<String> = params.iter().map(|p| declared(p)).collect();
        format!("{name}({})", params.join(", "))
    };
    match of {
        Type::Null => "null_type".to_string(),
        Type::Timestamp => "google.protobuf.Timestamp".to_string(),
        Type::Duration => "google.protobuf.Duration".to_string(),
        Type::List(element) => within("list", &[element]),
        Type::Map(of) => within("map", &[&of.0, &of.1]),
        Type::Opaque(name, params) if !params.is_empty() => within(name, &params.iter().collect::<Vec<_>>()),
        Type::Type(Some(of)) => within("type", &[of]),
        other => other.to_string(),
    }
}

fn object(name: &str, fields: &[(&str, &Arc<Shape>, bool)]) -> Arc<Shape> {
    let fields = fields.iter().map(|(name, shape, required)| {
        (Str::from(*name), Field { json: (*name).into(), shape: Arc::clone(shape), required: *required })
    });
    let object = ObjectShape { name: name.into(), fields: fields.collect() };
    Arc::new(Shape::of(ShapeKind::Object(Arc::new(object))))
}

fn scalar(kind: ShapeKind) -> Arc<Shape> {
    Arc::new(Shape::of(kind))
}

fn list(element: &Arc<Shape>) -> Arc<Shape> {
    scalar(ShapeKind::List { element: Arc::clone(element), list: ListKind::Ordered })
}

fn map(value: &Arc<Shape>) -> Arc<Shape> {
    scalar(ShapeKind::Map { value: Arc::clone(value) })
}

/// `kubernetes.SubjectAccessReviewSpec`: the variable of match conditions of authorization webhooks.
pub fn review_spec_shape() -> Arc<Shape> {
    let text = scalar(ShapeKind::String);
    let requirement = object(
        "kubernetes.SelectorRequirement",
        &[("key", &text, false), ("operator", &text, false), ("values", &list(&text), false)],
    );
    let selector = |name: &str| {
        object(name, &[("rawSelector", &text, false), ("requirements", &list(&requirement), false)])
    };
    let resource = object(
        "kubernetes.ResourceAttributes",
        &[
            ("namespace", &text, false),
            ("verb", &text, false),
            ("group", &text, false),
            ("version", &text, false),
            ("resource", &text, false),
            ("subresource", &text, false),
            ("name", &text, false),
            ("fieldSelector", &selector("kubernetes.FieldSelectorAttributes"), false),
            ("labelSelector", &selector("kubernetes.LabelSelectorAttributes"), false),
        ],
    );
    let path = object("kubernetes.NonResourceAttributes", &[("path", &text, false), ("verb", &text, false)]);
    object(
        "kubernetes.SubjectAccessReviewSpec",
        &[
            ("resourceAttributes", &resource, false),
            ("nonResourceAttributes", &path, false),
            ("user", &text, false),
            ("groups", &list(&text), false),
            ("extra", &map(&list(&text)), false),
            ("uid", &text, false),
        ],
    )
}

/// `kubernetes.UserInfo`: the user in expressions.
pub fn user_shape() -> Arc<Shape> {
    let text = scalar(ShapeKind::String);
    object(
        "kubernetes.UserInfo",
        &[
            ("username", &text, false),
            ("uid", &text, false),
            ("groups", &list(&text), false),
            ("extra", &map(&list(&text)), false),
        ],
    )
}

/// The `request` variable.
fn request() -> Arc<Shape> {
    let text = scalar(ShapeKind::String);
    let gvk = object(
        "kubernetes.GroupVersionKind",
        &[("group", &text, true), ("version", &text, true), ("kind", &text, true)],
    );
    let gvr = object(
        "kubernetes.GroupVersionResource",
        &[("group", &text, true), ("version", &text, true), ("resource", &text, true)],
    );
    let user = user_shape();
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", &gvk, true),
            ("resource", &gvr, true),
            ("subResource", &text, false),
            ("requestKind", &gvk, true),
            ("requestResource", &gvr, true),
            ("requestSubResource", &text, false),
            ("name", &text, true),
            ("namespace", &text, false),
            ("operation", &text, true),
            ("userInfo", &user, true),
            ("dryRun", &scalar(ShapeKind::Bool), false),
            ("options", &scalar(ShapeKind::Dyn), false),
        ],
    )
}

/// The `namespaceObject` variable.
fn namespace() -> Arc<Shape> {
    let (text, time, int) = (scalar(ShapeKind::String), scalar(ShapeKind::Timestamp), scalar(ShapeKind::Int));
    let condition = object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", &text, true),
            ("type", &text, true),
            ("lastTransitionTime", &time, true),
            ("message", &text, true),
            ("reason", &text, true),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", &text, true),
            ("generateName", &text, true),
            ("namespace", &text, true),
            ("labels", &map(&text), true),
            ("annotations", &map(&text), true),
            ("UID", &text, true),
            ("creationTimestamp", &time, true),
            ("deletionGracePeriodSeconds", &int, true),
            ("deletionTimestamp", &time, true),
            ("generation", &int, true),
            ("resourceVersion", &text, true),
            ("finalizers", &list(&text), true),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", &list(&text), true)]);
    let status = object(
        "kubernetes.NamespaceStatus",
        &[("conditions", &list(&condition), true), ("phase", &text, true)],
    );
    object(
        "kubernetes.Namespace",
        &[("metadata", &metadata, true), ("spec", &spec, true), ("status", &status, true)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_see_what_they_are_offered() {
        let all = Offered { params: true, authorizer: true, patches: false };
        let none = Offered { params: false, authorizer: false, patches: false };
        let undeclared = |name: &str| format!("undeclared reference to '{name}' (in container '')");
        let cases = [
            ("object.a == params.a && request.operation == 'CREATE'", all, String::new()),
            ("authorizer.path('/x').check('get').allowed()", all, String::new()),
            ("authorizer.requestResource.check('get').allowed()", all, String::new()),
            ("namespaceObject.metadata.labels['a'] == 'b'", none, String::new()),
            ("params.a == 1", none, undeclared("params")),
            ("authorizer.path('/x').check('get').allowed()", none, undeclared("authorizer")),
            ("request.userInfo.groups", all, "must evaluate to bool but got list(string)".to_string()),
        ];
        for (text, offered, expected) in cases {
            let found = Expressions::default().check(text, offered, &[Type::Bool]).err().unwrap_or_default();
            let fits = if expected.is_empty() { found.is_empty() } else { found.contains(&expected) };
            assert!(fits, "{text}: {found}");
        }
    }

    #[test]
    fn variables_keep_their_types_even_when_they_are_wrong() {
        let offered = Offered { params: false, authorizer: true, patches: false };
        let mut expressions = Expressions::composed();
        assert!(expressions.declare("a", "1", offered).is_ok());
        assert!(expressions.declare("b", "nope", offered).is_err());
        let check = |text: &str| expressions.check(text, offered, &[Type::Bool]).err().unwrap_or_default();
        assert_eq!(check("variables.a == 1 && variables.b"), "");
        assert!(check("variables.a == 'x'").contains("applied to '(int, string)'"));
        assert!(check("variables.c").contains("undefined field 'c'"));
    }
}
