//! Requests whose body is not stored as it is: subresources with a kind of their own, and resources that can only be
//! created. Each is decoded and admitted here and carried out in its own module.

mod binding;
mod connect;
mod eviction;
mod identity;
mod node;
mod proxy;
mod reviews;
pub(crate) mod scale;
mod token;

pub use connect::{Backend, Location, NodeSettings};
pub use token::{SECONDS_EXTENDED as TOKEN_SECONDS_EXTENDED, TokenObjects};

use crate::propose::{self, Change};
use crate::write::WriteRequest;
use crate::{Storage, Target, Writer, decode, metadata, ownership};
use pintle_admission::{Attributes, Operation};
use pintle_auth::{Authenticator, Authorizer};
use pintle_kinds::kind::UNSUPPORTED_LABEL;
use pintle_kinds::{Keep, Kind, KindVersion, NoHooks, Rules, Strategy, Verbs};
use pintle_meta::{GroupVersionKind, Status};
use pintle_schema::typed;
use pintle_value::{Str, Value};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The authenticator and authorizers that reviews and token requests use.
pub struct Access {
    /// The authorizers, which access reviews query.
    pub authorizer: Arc<dyn Authorizer>,
    /// Authenticates tokens and issues them.
    pub authenticator: Arc<Authenticator>,
    /// The longest lifetime of a service account token in seconds; 0 means no limit.
    pub token_seconds_max: i64,
    /// Whether tokens of pods get an extended lifetime, after whose nominal end their use only logs a warning.
    pub extend_tokens: bool,
    /// The extended lifetime of such tokens, in seconds.
    pub extended_token_seconds: i64,
}

/// The result of a create that stores no object of its own.
pub struct VirtualResult {
    /// The answer, a review or a `Status`.
    pub tree: Value,
    /// The warnings for the client.
    pub warnings: Vec<String>,
}

impl Writer {
    /// Returns whether creates of this target store no object of their own.
    pub fn is_virtual(&self, target: &Target) -> bool {
        target.subresource.is_empty() && target.kind.verbs.create && !target.kind.verbs.get
    }

    /// Carries out a create of a subresource with a kind of its own, or of a resource that can only be created.
    pub async fn create_virtual(
        &self,
        request: &WriteRequest,
        access: &Access,
    ) -> Result<VirtualResult, Status> {
        let mut warnings = Vec::new();
        match self.make_virtual(request, access, &mut warnings).await {
            Ok(tree) => Ok(VirtualResult { tree, warnings }),
            Err(status) => Err(Status { warnings, ..status }),
        }
    }

    /// Answers such a create. Warnings are returned with the answer or with the error.
    async fn make_virtual(
        &self,
        request: &WriteRequest,
        access: &Access,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Status> {
        let target = &request.target;
        let (kind, mut object, noted) = self.decode_virtual(request)?;
        warnings.extend(noted);
        let name = match target.name.as_str() {
            "" => Str::from(object.str_at(&["metadata", "name"])),
            _ => target.name.clone(),
        };
        let attributes = creation_attributes(request, &name);
        let body_target = self.storage.body_target(target)?;
        self.provision_namespace(&attributes, &object).await?;
        self.admission.mutate_admitted(&attributes, &body_target, Some(&mut object), warnings).await?;
        let mut tree = match kind.as_str() {
            "Binding" => {
                binding::check(&object, &name)?;
                self.admission.validate_admitted(&attributes, &body_target, Some(&object), warnings).await?;
                self.bind(target, &object, request.dry_run).await?;
                success()
            }
            "Eviction" => {
                let options = eviction::options(&object, &name, request.dry_run)?;
                self.admission.validate_admitted(&attributes, &body_target, Some(&object), warnings).await?;
                self.evict(target, &name, options).await?
            }
            "TokenRequest" => {
                let account = self.token_account(target, &mut object, access)?;
                self.admission.validate_admitted(&attributes, &body_target, Some(&object), warnings).await?;
                self.issue_token(target, &account, object, access, warnings).await?
            }
            "SelfSubjectReview" => {
                self.admission.validate_admitted(&attributes, &body_target, Some(&object), warnings).await?;
                identity::whoami(&request.user, &self.storage.now_text())
            }
            "TokenReview" => {
                identity::check_token_review(&object)?;
                self.admission.validate_admitted(&attributes, &body_target, Some(&object), warnings).await?;
                identity::review_token(object, access, self.system_time()).await
            }
            "SelfSubjectRulesReview" => {
                reviews::check_rules_review(&object)?;
                self.admission.validate_admitted(&attributes, &body_target, Some(&object), warnings).await?;
                reviews::rules(&object, access, &request.user)
            }
            "SubjectAccessReview" | "SelfSubjectAccessReview" | "LocalSubjectAccessReview" => {
                let asked = reviews::ReviewScope::of(&kind);
                reviews::check(asked, &object)?;
                self.admission.validate_admitted(&attributes, &body_target, Some(&object), warnings).await?;
                reviews::answer(asked, object, access, &request.user).await
            }
            other => return Err(Status::internal(&format!("nothing is known of creating a {other}"))),
        };
        // The lists of a rules review are empty, not null, if there are no rules.
        let is_complete = kind == "SelfSubjectRulesReview";
        if let Some(schema) = self.storage.types.by_kind(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))
            && !is_complete
        {
            typed::normalize(&schema, &mut tree);
        }
        Ok(tree)
    }

    /// Decodes the object of a create. Returns its kind, the object and the warnings.
    fn decode_virtual(&self, request: &WriteRequest) -> Result<(Str, Value, Vec<String>), Status> {
        let target = &request.target;
        let body_target = self.storage.body_target(target)?;
        let kinds = self.storage.registry.kinds();
        let registered =
            |kind: &str, gv: &pintle_meta::GroupVersion| self.storage.is_built_in(&kinds, kind, gv);
        let cx = propose::Context {
            target: &body_target,
            validation: request.validation(),
            registered: &registered,
        };
        let Change::Create(body) = &request.change else {
            return Err(Status::method_not_supported(&target.kind.group_resource(), "update"));
        };
        let propose::Proposed { mut object, warnings, older_version, .. } =
            propose::decode_object(&cx, body, typed::Empties::PreserveSerialized)?;
        let kind = body_target.kind.kind.clone();
        if kind == "TokenRequest" {
            token::default(&mut object);
        }
        // Audit events have the object with its defaults, in the version that it states.
        crate::write::note_request_object_in(&body_target, &object, older_version);
        if !matches!(kind.as_str(), "Binding" | "TokenRequest") || target.subresource.is_empty() {
            metadata::wipe_system_fields(&mut object);
        }
        metadata::default_namespace(&mut object, target)?;
        let manager = metadata::manager(&request.field_manager, &request.user_agent);
        let owner = ownership::Owner { manager: &manager, now: &self.storage.now_text() };
        ownership::record(&body_target, owner, None, &mut object);
        Ok((kind, object, warnings))
    }

    fn system_time(&self) -> SystemTime {
        let (seconds, nanos) = self.storage.clock.now();
        let since_epoch = Duration::new(u64::try_from(seconds).unwrap_or(0), nanos);
        SystemTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl Storage {
    /// Returns the target with the kind that its subresource reads and writes, or the target itself if that is its own
    /// kind.
    pub(crate) fn body_target(&self, target: &Target) -> Result<Target, Status> {
        let version = target.kind_version();
        let Some(sub) = version.subresource(&target.subresource) else { return Ok(target.clone()) };
        if sub.gvk == version.gvk(&target.kind) {
            return Ok(target.clone());
        }
        let api_version = decode::api_version(&sub.gvk.group, &sub.gvk.version);
        let schema = self.types.by_kind(&api_version, &sub.gvk.kind);
        let schema = schema.ok_or_else(|| Status::internal("the kind of the subresource is unknown"))?;
        let kind = Arc::new(subresource_kind(&target.kind, &sub.gvk, schema));
        Ok(Target { kind, version: 0, ..target.clone() })
    }
}

/// The `Status` of a success without further details.
fn success() -> Value {
    let mut out = Value::object();
    for (key, text) in [("kind", "Status"), ("apiVersion", "v1"), ("status", "Success")] {
        out.set_at(&[key], text.into());
    }
    out.set_at(&["metadata"], Value::object());
    out.set_at(&["code"], Value::Int(201));
    out
}

fn creation_attributes<'a>(request: &'a WriteRequest, name: &'a str) -> Attributes<'a> {
    let target = &request.target;
    Attributes {
        operation: Operation::Create,
        kind: &target.kind,
        version: target.kind_version(),
        namespace: &target.namespace,
        name,
        subresource: &target.subresource,
        old: None,
        user: &request.user,
        dry_run: request.dry_run,
        options: request.options(),
    }
}

/// The kind of a subresource's body, such as Scale or Eviction.
fn subresource_kind(parent: &Kind, gvk: &GroupVersionKind, schema: pintle_schema::Schema) -> Kind {
    let version = KindVersion {
        name: gvk.version.clone(),
        served: true,
        group: gvk.group.clone(),
        schema,
        protobuf: true,
        subresources: Vec::new(),
        selectable: Vec::new(),
        namespace_selectable: true,
        unsupported_label: UNSUPPORTED_LABEL.into(),
        columns: Vec::new(),
        deprecation: None,
        defaults: None,
        hooks: &NoHooks,
    };
    Kind {
        group: gvk.group.clone(),
        kind: gvk.kind.clone(),
        list_kind: Str::default(),
        plural: parent.plural.clone(),
        singular: parent.singular.clone(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: parent.namespaced,
        versions: vec![version],
        storage: 0,
        verbs: Verbs::default(),
        storage_version_hash: Str::default(),
        store_prefix: parent.store_prefix.clone(),
        rules: Rules { unappliable: !parent.storage_version().schema.is_built_in(), ..Rules::default() },
        strategy: Strategy { keep: Keep::Everything, ..Strategy::default() },
        hooks: &NoHooks,
        conversion: None,
        definition: Str::default(),
    }
}
