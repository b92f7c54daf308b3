//! The pipelines: every read, write, deletion and watch of API objects.
//!
//! `write.rs` is every mutation top to bottom, `propose.rs` computes the requested object, `delete.rs` deletes, `read.rs`
//! is get and list. The engine does not know HTTP; its answers are objects or a `Status`.
//!
//! Writes and deletions return boxed futures: the compiler generates the code of an `async fn` again in every codegen unit
//! that awaits it, and these are large and have many callers.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod access_objects;
mod admit;
mod allocate;
mod answer;
mod authorize;
mod claim_rights;
mod computed;
mod convert;
mod crd;
mod deadline;
pub mod decode;
mod delete;
pub mod environment;
mod history;
mod internal;
mod measures;
mod metadata;
mod object;
mod object_size;
mod ownership;
mod precondition;
mod propose;
mod read;
mod registry;
mod retry;
mod select;
pub mod services;
mod shard;
mod signer_rights;
mod status;
mod storage;
mod stored;
mod subresource;
mod target;
mod unreadable;
mod validation;
mod watch;
mod write;

pub use access_objects::AccessObjects;
pub use admit::{Admission, Hooks};
pub use allocate::{Finding, Regarding, Repairs};
pub use deadline::with_deadline;
pub use delete::Deleted;
pub use environment::{Clock, Random};
pub use history::{ObjectHistory, ObjectVersion};
pub use propose::{Body, Change, PatchType};
pub use read::{ListRequest, Listed, Reader};
pub use registry::{BuiltInGroup, Kinds, Members, Registry};
pub use storage::Storage;
pub use stored::{
    Codec, FormStore, IDENTITY_LABEL, KubernetesForm, MASTER_LEASES, PEER_LEASES, StorageMediaType,
    StoredForm, Unreadable, decodable_versions, encoding_version, is_object_key,
};
pub use subresource::{
    Access, Backend, Location, NodeSettings, TOKEN_SECONDS_EXTENDED, TokenObjects, VirtualResult,
};
pub use target::{Target, object_key};
pub use watch::{Selection, Watched};
pub use write::{Follower, WriteRequest, Writer, Written};

use pintle_admission::Chain;
use pintle_admission::manifest::ManifestFolder;
use pintle_auth::Authorizer;
use pintle_cache::Cache;
use pintle_kinds::Types;
use pintle_kinds::service_allocation::Ranges;
use pintle_schema::Schema;
use pintle_store::Store;
use pintle_webhook::Caller;
use std::sync::Arc;

/// The parts and settings that an engine is made from.
pub struct Options {
    /// The store of all objects.
    pub store: Arc<dyn Store>,
    /// The codec of that store, if it is a [`FormStore`].
    pub codec: Option<Arc<Codec>>,
    /// The objects in memory.
    pub cache: Arc<Cache>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The random source.
    pub random: Arc<dyn Random>,
    /// The schemas of types that are not resources.
    pub types: Types,
    /// The schema of `metadata`, shared by all custom resources.
    pub metadata_schema: Schema,
    /// The admission plugins.
    pub plugins: Chain,
    /// The admission webhooks.
    pub hooks: Hooks,
    /// Calls conversion webhooks.
    pub webhooks: Arc<dyn Caller>,
    /// Authorizes requests whose rights depend on the object.
    pub authorizer: Arc<dyn Authorizer>,
    /// The authorizers that are built from objects. They are updated when such an object is written.
    pub access_objects: AccessObjects,
    /// The ranges from which services get their cluster IPs and node ports.
    pub service_ranges: Ranges,
    /// Whether undecodable objects are reported as such and may be deleted with
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`.
    pub unsafe_deletion: bool,
    /// How many objects of a collection are deleted at the same time.
    pub deletion_workers: usize,
    /// Whether deletions that orphan dependents or delete them first wait for a garbage collector.
    pub garbage_collection: bool,
    /// Whether parts of a ResourceClaim's status need rights of their own (`DRAResourceClaimGranularStatusAuthorization`).
    pub granular_claim_status: bool,
    /// Whether webhooks and extension servers are reached at the endpoints of their services rather than at their cluster IPs.
    pub routes_to_endpoints: bool,
}

/// The engine: one per server. Each part uses those before it.
pub struct Engine {
    storage: Arc<Storage>,
    reader: Arc<Reader>,
    writer: Arc<Writer>,
}

impl Engine {
    /// An engine that serves no kinds yet.
    pub fn new(options: Options) -> Self {
        let storage = Arc::new(Storage {
            store: options.store,
            codec: options.codec,
            cache: options.cache,
            registry: Registry::new(Vec::new()),
            clock: options.clock,
            random: options.random,
            types: options.types,
            metadata_schema: options.metadata_schema,
            custom_metadata: Default::default(),
            admission_resources: Default::default(),
            routes_to_endpoints: options.routes_to_endpoints,
        });
        let reader = Arc::new(Reader {
            storage: storage.clone(),
            webhooks: options.webhooks,
            in_flight_conversions: Default::default(),
            unsafe_deletion: options.unsafe_deletion,
        });
        let admission = Arc::new(Admission {
            storage: storage.clone(),
            reader: reader.clone(),
            plugins: options.plugins,
            authorizer: options.authorizer,
            hooks: options.hooks,
            policy_slots: Default::default(),
        });
        let writer = Arc::new(Writer {
            storage: storage.clone(),
            reader: reader.clone(),
            admission,
            access_objects: options.access_objects,
            service_ranges: options.service_ranges,
            deletion_workers: options.deletion_workers,
            garbage_collection: options.garbage_collection,
            granular_claim_status: options.granular_claim_status,
            contention_lock: Default::default(),
            follower: Default::default(),
        });
        Engine { storage, reader, writer }
    }

    /// The stored objects and their kinds.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Get, list, watch and history.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// The folders of `staticManifestsDir`, each with its plugin.
    pub fn manifest_folders(&self) -> &[(&'static str, std::path::PathBuf)] {
        self.writer.admission.plugins.manifest_folders()
    }

    /// Loads the manifests of a plugin and puts them in force. If one of them cannot be used, nothing changes.
    pub fn load_manifests(&self, plugin: &str, folder: &ManifestFolder) -> Result<(), String> {
        self.writer.admission.load_manifests(plugin, folder)
    }

    /// Changes and deletions.
    pub fn writer(&self) -> &Arc<Writer> {
        &self.writer
    }
}
