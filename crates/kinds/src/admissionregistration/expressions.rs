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
            .with_shape("namespaceObject", shape("Namespace"))
            .with_shape("request", shape("AdmissionRequest"))
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
        let names: Vec<String> = wanted.iter().map(Type::declared_name).collect();
        Err(match names.as_slice() {
            [one] => format!("must evaluate to {one} but got {}", found.declared_name()),
            many => format!("must evaluate to one of [{}] but got {}", many.join(" "), found.declared_name()),
        })
    }

    /// Compiles an expression of any type, or returns the compiler's messages.
    pub fn compile(&self, text: &str, offered: Offered) -> Result<Checked, String> {
        self.env(offered, text).compile(text).map_err(|issues| issues.to_string())
    }

    /// The environment of the expression `text`. It has only those variables that the text names: a compiled expression
    /// keeps its environment, so copies of all variables would take memory and time in the square of their number.
    fn env(&self, offered: Offered, text: &str) -> Env {
        let mut env = self.typed.as_ref().unwrap_or_else(|| base_environment(offered)).clone();
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

/// The environment that the expressions of all admission objects share. Each of the eight combinations of what is offered
/// is built once.
fn base_environment(offered: Offered) -> &'static Env {
    static BASES: [OnceLock<Env>; 8] = [const { OnceLock::new() }; 8];
    let at = [offered.params, offered.authorizer, offered.patches];
    let at = at.into_iter().fold(0, |at, offered| (at << 1) | usize::from(offered));
    let [last, ..] = &BASES;
    BASES.get(at).unwrap_or(last).get_or_init(|| {
        let mut env = Env::kubernetes()
            .with_variable("object", Type::Dyn)
            .with_variable("oldObject", Type::Dyn)
            .with_shape("namespaceObject", shape("Namespace"))
            .with_shape("request", shape("AdmissionRequest"));
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
fn shape_of_type(ty: &Type) -> ShapeKind {
    match ty {
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
        Type::Map(ty) if ty.0 == Type::String => {
            ShapeKind::Map { value: Arc::new(Shape::of(shape_of_type(&ty.1))) }
        }
        _ => ShapeKind::Dyn,
    }
}

/// The types of variables, named `kubernetes.NAME` in errors, and their fields. `?` marks an optional field; `[]` is a list,
/// `{}` a map from strings.
const TYPES: [(&str, &str); 15] = [
    ("SelectorRequirement", "key?:string operator?:string values?:[]string"),
    ("FieldSelectorAttributes", "rawSelector?:string requirements?:[]SelectorRequirement"),
    ("LabelSelectorAttributes", "rawSelector?:string requirements?:[]SelectorRequirement"),
    (
        "ResourceAttributes",
        "namespace?:string verb?:string group?:string version?:string resource?:string subresource?:string \
         name?:string fieldSelector?:FieldSelectorAttributes labelSelector?:LabelSelectorAttributes",
    ),
    ("NonResourceAttributes", "path?:string verb?:string"),
    (
        "SubjectAccessReviewSpec",
        "resourceAttributes?:ResourceAttributes nonResourceAttributes?:NonResourceAttributes user?:string \
         groups?:[]string extra?:{}[]string uid?:string",
    ),
    ("UserInfo", "username?:string uid?:string groups?:[]string extra?:{}[]string"),
    ("GroupVersionKind", "group:string version:string kind:string"),
    ("GroupVersionResource", "group:string version:string resource:string"),
    (
        "AdmissionRequest",
        "kind:GroupVersionKind resource:GroupVersionResource subResource?:string requestKind:GroupVersionKind \
         requestResource:GroupVersionResource requestSubResource?:string name:string namespace?:string \
         operation:string userInfo:UserInfo dryRun?:bool options?:dyn",
    ),
    ("NamespaceCondition", "status:string type:string lastTransitionTime:time message:string reason:string"),
    (
        "NamespaceMetadata",
        "name:string generateName:string namespace:string labels:{}string annotations:{}string UID:string \
         creationTimestamp:time deletionGracePeriodSeconds:int deletionTimestamp:time generation:int \
         resourceVersion:string finalizers:[]string",
    ),
    ("NamespaceSpec", "finalizers:[]string"),
    ("NamespaceStatus", "conditions:[]NamespaceCondition phase:string"),
    ("Namespace", "metadata:NamespaceMetadata spec:NamespaceSpec status:NamespaceStatus"),
];

/// The shape of a type as [`TYPES`] writes it.
fn shape(ty: &str) -> Arc<Shape> {
    let kind = match ty {
        "string" => ShapeKind::String,
        "bool" => ShapeKind::Bool,
        "int" => ShapeKind::Int,
        "time" => ShapeKind::Timestamp,
        "dyn" => ShapeKind::Dyn,
        _ => match (ty.strip_prefix("[]"), ty.strip_prefix("{}")) {
            (Some(element), _) => ShapeKind::List { element: shape(element), list: ListKind::Ordered },
            (_, Some(value)) => ShapeKind::Map { value: shape(value) },
            (None, None) => ShapeKind::Object(Arc::new(object_shape(ty))),
        },
    };
    Arc::new(Shape::of(kind))
}

fn object_shape(name: &str) -> ObjectShape {
    let fields = TYPES.iter().find(|(known, _)| *known == name).map_or("", |(_, fields)| *fields);
    let fields = fields.split(' ').filter_map(|field| field.split_once(':')).map(|(name, ty)| {
        let required = !name.ends_with('?');
        let name = name.trim_end_matches('?');
        (Str::from(name), Field { json: name.into(), shape: shape(ty), required })
    });
    ObjectShape { name: format!("kubernetes.{name}").into(), fields: fields.collect() }
}

/// `kubernetes.SubjectAccessReviewSpec`: the variable of match conditions of authorization webhooks.
pub fn review_spec_shape() -> Arc<Shape> {
    shape("SubjectAccessReviewSpec")
}

/// `kubernetes.UserInfo`: the user in expressions.
pub fn user_shape() -> Arc<Shape> {
    shape("UserInfo")
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
