//! Deletes objects and collections.

use super::{Resources, media, with_warnings};
use crate::api::{ApiRequest, ApiResponse};
use crate::headers;
use crate::negotiate::{self, Media};
use crate::respond;
use pintle_auth::{Attributes, Decision};
use pintle_engine::{Deleted, ListRequest, Listed, Target};
use pintle_meta::Status;
use pintle_meta::options::{DeleteOptions, Query};
use pintle_schema::typed::{self, Strict};

/// The verb for deleting objects that cannot be read.
const UNSAFE_DELETE: &str = "unsafe-delete-ignore-read-errors";
const NO_UNSAFE_DELETER: &str =
    "no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential";

impl Resources {
    pub(super) async fn delete(&self, request: &ApiRequest, target: &Target) -> Result<ApiResponse, Status> {
        let options = self.delete_options(request)?;
        if options.ignore_store_read_error {
            pintle_audit::annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", String::new);
            if target.kind.rules.unsafe_deletion_unsupported {
                return Err(Status::internal(NO_UNSAFE_DELETER));
            }
            self.authorize_unsafe(request, target).await?;
            let status = self.engine.writer().delete_corrupt(target).await?;
            return Ok(respond::status(&status, Some(request.accept.encoding)));
        }
        let mut warnings = Vec::new();
        let deleted = self.engine.writer().delete(target, &options, &request.user, &mut warnings).await;
        let response = match deleted.map_err(|status| with_warning(status, target, &options))? {
            Deleted::Status(status) => {
                let _span = pintle_trace::span("SerializeObject");
                Ok(respond::status(&status, Some(request.accept.encoding)))
            }
            Deleted::Object { object, gone } => {
                // Only clients that set the deprecated `orphanDependents: false` get 202 while the object waits.
                let code = if !gone && options.orphan_dependents == Some(false) { 202 } else { 200 };
                self.object_response(request, target, &object, code).await
            }
        };
        warnings.extend(warning(target, &options));
        with_warnings(response, warnings)
    }

    /// Authorizes the deletion of an unreadable object, which is a verb of its own.
    async fn authorize_unsafe(&self, request: &ApiRequest, target: &Target) -> Result<(), Status> {
        let attributes = Attributes {
            user: request.user.clone(),
            verb: UNSAFE_DELETE.to_string(),
            resource_request: true,
            path: request.info.path.clone(),
            group: request.info.group.as_str().into(),
            version: request.info.version.as_str().into(),
            resource: request.info.resource.as_str().into(),
            namespace: request.info.namespace.as_str().into(),
            name: request.info.name.as_str().into(),
            ..Attributes::default()
        };
        match self.access.authorizer.authorize(&attributes).await {
            Decision::Allow(_) => Ok(()),
            Decision::Failed(failure) => Err(Status::internal(&failure.error)),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => {
                let why = format!("not permitted to do \"{UNSAFE_DELETE}\", reason: {reason}");
                Err(Status::forbidden(&target.group_resource(), &target.name, &why))
            }
        }
    }

    pub(super) async fn delete_collection(
        &self,
        request: &ApiRequest,
        target: Target,
    ) -> Result<ApiResponse, Status> {
        let list = self.list_request(request, target)?;
        let options = self.delete_options(request)?;
        options.check_collection()?;
        let mut warnings = Vec::new();
        let listed = if list.target.kind.namespaced && list.target.namespace.is_empty() {
            self.list_across_namespaces(&list).await
        } else {
            self.engine.writer().delete_collection(&list, &options, &request.user, &mut warnings).await
        };
        let listed = listed.map_err(|status| with_warning(status, &list.target, &options))?;
        warnings.extend(warning(&list.target, &options));
        with_warnings(self.list_response(request, &list.target, listed), warnings)
    }

    /// The collection of a path with an empty namespace (`/api/v1/namespaces//pods`): it is listed across all namespaces,
    /// but nothing in it can be deleted.
    async fn list_across_namespaces(&self, list: &ListRequest) -> Result<Listed, Status> {
        let listed = self.engine.reader().list(list).await?;
        if listed.items.is_empty() {
            Ok(listed)
        } else {
            Err(Status::bad_request("Namespace parameter required."))
        }
    }

    /// Parses the options from the body, or from the query if there is no body.
    fn delete_options(&self, request: &ApiRequest) -> Result<DeleteOptions, Status> {
        let unsafe_deletion = self.engine.reader().unsafe_deletion();
        if request.body.is_empty() {
            return DeleteOptions::from_query(Query(&request.query), unsafe_deletion);
        }
        let content = negotiate::of_body(&headers::text(&request.content_type), Media::served(request.cbor))?;
        let schema = self.types.by_go("meta/v1.DeleteOptions");
        let schema = schema.ok_or_else(|| Status::internal("options of deletions have no type"))?;
        let tree = pintle_engine::decode::decode_options(&request.body, media(content), &schema)?;
        let (options, validity) = DeleteOptions::read(&tree, unsafe_deletion)?;
        pintle_audit::note_request_document(|| {
            // kube-apiserver records them in the internal version of this type.
            let mut tree = pintle_schema::decode(&schema, tree, &mut Strict::default()).ok()?;
            typed::normalize(&schema, &mut tree);
            tree.set_at(&["apiVersion"], "meta.k8s.io/__internal".into());
            tree.set_at(&["kind"], "DeleteOptions".into());
            let out = pintle_value::json::bytes(&tree);
            Some(out)
        });
        validity.map(|()| options)
    }
}

/// The warning for a deletion of a Job without propagation policy.
fn warning(target: &Target, options: &DeleteOptions) -> Option<String> {
    let open = options.propagation.is_none() && options.orphan_dependents.is_none();
    target.kind.hooks.default_propagation_warning().filter(|_| open).map(str::to_string)
}

fn with_warning(mut status: Status, target: &Target, options: &DeleteOptions) -> Status {
    status.warnings.extend(warning(target, options));
    status
}
