//! NamespaceAutoProvision: creates the namespace of a new object if it does not exist.

use crate::{Body, Change, WriteRequest, Writer};
use pintle_admission::{Attributes, ClusterState, Operation, observe_first_plugin};
use pintle_meta::{Reason, Status};
use pintle_value::{Str, Value, json};
use std::time::Instant;

const NAME: &str = "NamespaceAutoProvision";

impl Writer {
    /// Creates the namespace of a request if the plugin is enabled and the namespace does not exist.
    pub(crate) async fn provision_namespace(
        &self,
        request: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        if request.operation != Operation::Create || !self.admission.plugins.is_on(NAME) {
            return Ok(());
        }
        let began = Instant::now();
        let outcome = self.provision(request, object).await;
        observe_first_plugin(NAME, request.operation, outcome.is_err(), began.elapsed());
        outcome
    }

    async fn provision(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let is_ours = !request.dry_run && !request.namespace.is_empty() && !request.is("", "namespaces");
        if !is_ours || self.storage.object("", "namespaces", "", request.namespace).is_some() {
            return Ok(());
        }
        match self.create_namespace(request.namespace).await {
            Err(status) if status.reason == Reason::AlreadyExists => Ok(()),
            Err(status) if status.reason == Reason::Forbidden => Err(status),
            Err(status) => Err(request.forbidden(Some(object), &status.message)),
            Ok(()) => Ok(()),
        }
    }

    /// Creates a namespace as a client would.
    async fn create_namespace(&self, name: &str) -> Result<(), Status> {
        let Some(target) = self.storage.target("", "v1", "namespaces", "", "") else { return Ok(()) };
        let mut object = Value::object();
        object.set_at(&["metadata", "name"], name.into());
        let bytes = json::bytes(&object);
        let request = WriteRequest {
            target,
            change: Change::Create(Body { bytes: bytes.into(), media: crate::decode::Media::Json }),
            dry_run: false,
            field_manager: Str::default(),
            user_agent: "kube-apiserver".to_string(),
            validation: None,
            user: self.storage.system_user(),
        };
        self.write(&request).await.map(drop)
    }
}
