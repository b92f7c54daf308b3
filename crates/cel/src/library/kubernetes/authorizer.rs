//! `authorizer`: authorization checks in expressions, which the caller of the expression answers.

use std::fmt;
use std::sync::Arc;

use super::format::names;
use crate::decl::{Row, declare};
use crate::library::Library;
use crate::library::operand::{Outcome, opaque, text};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

/// The name of the type of `authorizer`.
pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
/// The name of the type of `authorizer.path('/healthz')`.
pub const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
/// The name of the type of `authorizer.group('apps')`.
pub const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
/// The name of the type of `authorizer.group('apps').resource('deployments')` and of `authorizer.requestResource`.
pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
/// The name of the type of the result of `check`.
pub const DECISION: &str = "kubernetes.authorization.Decision";

/// Answers the authorization checks of expressions.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Whether `question` is allowed.
    fn authorize(&self, question: &Question<'_>) -> Decision;
}

/// The authorization check of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'q> {
    /// The user or service account.
    pub subject: &'q Subject,
    /// The verb of the API or of HTTP.
    pub verb: &'q str,
    /// The path or resource.
    pub target: Target<'q>,
}

/// The subject of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// The user of the request.
    #[default]
    Requester,
    /// A service account.
    ServiceAccount {
        /// The service account's namespace.
        namespace: String,
        /// The service account's name.
        name: String,
    },
}

/// The target of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'q> {
    /// A path that is not a resource.
    Path(&'q str),
    /// A resource, of any version.
    Resource(&'q Resource),
}

/// A resource; empty fields are unspecified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// The resource's group.
    pub group: String,
    /// The resource's plural name.
    pub resource: String,
    /// The resource's subresource.
    pub subresource: String,
    /// The resource's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// A field selector; an invalid one counts as none.
    pub field_selector: String,
    /// A label selector; an invalid one counts as none.
    pub label_selector: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The reason.
    pub reason: String,
    /// The error of the authorizer, if any.
    pub error: Option<String>,
}

/// The value of the variable `authorizer`.
pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Value<'static> {
    Value::Opaque(Arc::new(Check { authorizer, subject: Subject::Requester, kind: Kind::Authorizer }))
}

/// The value of the variable `authorizer.requestResource`.
pub fn request_resource(authorizer: Arc<dyn Authorizer>, resource: Resource) -> Value<'static> {
    Value::Opaque(Arc::new(Check { authorizer, subject: Subject::Requester, kind: Kind::Resource(resource) }))
}

/// A partially specified check.
#[derive(Clone, Debug)]
struct Check {
    authorizer: Arc<dyn Authorizer>,
    subject: Subject,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Authorizer,
    Path(String),
    Group(String),
    Resource(Resource),
}

impl Opaque for Check {
    fn cel_type(&self) -> Type {
        let name = match self.kind {
            Kind::Authorizer => AUTHORIZER,
            Kind::Path(_) => PATH_CHECK,
            Kind::Group(_) => GROUP_CHECK,
            Kind::Resource(_) => RESOURCE_CHECK,
        };
        Type::Object(name.into())
    }

    /// kube-apiserver cannot compare two authorizers.
    fn equals(&self, _: &Value<'_>) -> Result<bool, EvalError> {
        Err(EvalError::NoSuchOverload)
    }
}

impl Opaque for Decision {
    fn cel_type(&self) -> Type {
        Type::Object(DECISION.into())
    }

    fn equals(&self, _: &Value<'_>) -> Result<bool, EvalError> {
        Err(EvalError::NoSuchOverload)
    }
}

/// The functions that specify a check, `check`, and the accessors of its result.
pub fn library() -> Library {
    Library { functions: declare(&own_types(), &CHECKS), ..Library::default() }
}

/// `fieldSelector` and `labelSelector`.
pub fn selectors() -> Library {
    Library { functions: declare(&own_types(), &SELECTORS), ..Library::default() }
}

/// The types as the signatures name them.
fn own_types() -> [(&'static str, Type); 5] {
    [
        ("authorizer", AUTHORIZER),
        ("path", PATH_CHECK),
        ("group", GROUP_CHECK),
        ("resource", RESOURCE_CHECK),
        ("decision", DECISION),
    ]
    .map(|(name, ty)| (name, Type::Object(ty.into())))
}

const CHECKS: [Row; 13] = [
    ("path", "authorizer_path", "authorizer.(string) -> path", path_check),
    ("group", "authorizer_group", "authorizer.(string) -> group", |args| {
        next(args, |kind, group| match kind {
            Kind::Authorizer => Ok(Kind::Group(group.to_owned())),
            _ => Err(EvalError::NoSuchOverload),
        })
    }),
    (
        "serviceAccount",
        "authorizer_serviceaccount",
        "authorizer.(string, string) -> authorizer",
        service_account,
    ),
    ("resource", "groupcheck_resource", "group.(string) -> resource", resource_check),
    ("subresource", "resourcecheck_subresource", "resource.(string) -> resource", |args| {
        with_text(args, |resource, text| resource.subresource = text)
    }),
    ("namespace", "resourcecheck_namespace", "resource.(string) -> resource", |args| {
        with_text(args, |resource, text| resource.namespace = text)
    }),
    ("name", "resourcecheck_name", "resource.(string) -> resource", |args| {
        with_text(args, |resource, text| resource.name = text)
    }),
    ("check", "pathcheck_check", "path.(string) -> decision", check),
    ("check", "resourcecheck_check", "resource.(string) -> decision", check),
    ("errored", "decision_errored", "decision.() -> bool", |args| {
        Ok(Value::Bool(opaque::<Decision>(args, 0)?.error.is_some()))
    }),
    ("error", "decision_error", "decision.() -> string", |args| {
        Ok(opaque::<Decision>(args, 0)?.error.clone().unwrap_or_default().into())
    }),
    ("allowed", "decision_allowed", "decision.() -> bool", |args| {
        Ok(Value::Bool(opaque::<Decision>(args, 0)?.allowed))
    }),
    ("reason", "decision_reason", "decision.() -> string", |args| {
        Ok(opaque::<Decision>(args, 0)?.reason.clone().into())
    }),
];

const SELECTORS: [Row; 2] = [
    ("fieldSelector", "authorizer_fieldselector", "resource.(string) -> resource", |args| {
        with_text(args, |resource, text| resource.field_selector = text)
    }),
    ("labelSelector", "authorizer_labelselector", "resource.(string) -> resource", |args| {
        with_text(args, |resource, text| resource.label_selector = text)
    }),
];

/// The check with one more property.
fn next<'a>(args: &[Value<'a>], say: fn(&Kind, &str) -> Result<Kind, EvalError>) -> Outcome<'a> {
    let check = opaque::<Check>(args, 0)?;
    let kind = say(&check.kind, text(args, 1)?)?;
    Ok(Value::Opaque(Arc::new(Check { kind, ..check.clone() })))
}

fn path_check<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    next(args, |kind, path| match kind {
        Kind::Authorizer if path.trim().is_empty() => Err(EvalError::Failed("path must not be empty".into())),
        Kind::Authorizer => Ok(Kind::Path(path.to_owned())),
        _ => Err(EvalError::NoSuchOverload),
    })
}

fn resource_check<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    next(args, |kind, resource| match kind {
        Kind::Group(_) if resource.trim().is_empty() => {
            Err(EvalError::Failed("resource must not be empty".into()))
        }
        Kind::Group(group) => Ok(Kind::Resource(Resource {
            group: group.clone(),
            resource: resource.to_owned(),
            ..Resource::default()
        })),
        _ => Err(EvalError::NoSuchOverload),
    })
}

fn with_text<'a>(args: &[Value<'a>], set: fn(&mut Resource, String)) -> Outcome<'a> {
    let mut check = opaque::<Check>(args, 0)?.clone();
    let Kind::Resource(resource) = &mut check.kind else {
        return Err(EvalError::NoSuchOverload);
    };
    set(resource, text(args, 1)?.to_owned());
    Ok(Value::Opaque(Arc::new(check)))
}

fn service_account<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (check, namespace, name) = (opaque::<Check>(args, 0)?, text(args, 1)?, text(args, 2)?);
    if !names::dns1123_subdomain(name).is_empty() {
        return Err(EvalError::Failed("Invalid service account name".into()));
    }
    if !names::dns1123_label(namespace).is_empty() {
        return Err(EvalError::Failed("Invalid service account namespace".into()));
    }
    let subject = Subject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() };
    Ok(Value::Opaque(Arc::new(Check { subject, ..check.clone() })))
}

fn check<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (check, verb) = (opaque::<Check>(args, 0)?, text(args, 1)?);
    let target = match &check.kind {
        Kind::Path(path) => Target::Path(path),
        Kind::Resource(resource) => Target::Resource(resource),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let decision = check.authorizer.authorize(&Question { subject: &check.subject, verb, target });
    Ok(Value::Opaque(Arc::new(decision)))
}
