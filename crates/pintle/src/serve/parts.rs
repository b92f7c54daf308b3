//! The parts that a server is made of, in the order in which they are opened: keys, objects with their access control, and
//! the servers that requests are forwarded to.

use super::ServeError;
use super::checks::add_checks;
use crate::authorization::LastingAuthorizers;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::objects::{self, Objects};
use crate::operation::Operation;
use crate::pki::{self, Authority, KeyFolder, Pair};
use crate::program::Program;
use crate::reload::{self, AuthenticationData};
use crate::token_signing::{self, TokenSigning};
use crate::{authenticator, bootstrap, upkeep};
use arc_swap::ArcSwap;
use pintle_auth::authz::Reloadable;
use pintle_auth::{Authenticator, Authorizer};
use pintle_controllers::aggregation::Aggregation;
use pintle_controllers::peers::Peers;
use pintle_engine::{AccessObjects, Engine};
use pintle_http::health::Health;
use pintle_http::tls::{self, ServingCertificates};
use std::sync::Arc;
use tokio::sync::watch;

/// The data folder and what it holds beside the store: keys and certificates.
pub(super) struct Keys {
    pub(super) folder: Arc<DataDir>,
    pub(super) authority: Arc<Authority>,
    pub(super) serving: Pair,
    /// The certificate of the CA that signed the serving certificate.
    pub(super) serving_authority: String,
    pub(super) admin: Pair,
}

impl Keys {
    /// Loads the keys, and creates those that are missing.
    pub(super) fn load(config: &Config) -> Result<Self, ServeError> {
        let folder = match &config.data_dir {
            Some(path) => DataDir::open(path)?,
            // The files are for people who run a server alone.
            None if config.program == Program::KubeApiserver || config.etcd.is_some() => DataDir::none(),
            None => DataDir::temporary()?,
        };
        let folder = Arc::new(folder);
        let key_folder = key_folder(config, &folder);
        let authority = Arc::new(Authority::load_or_make(key_folder)?);
        let (serving, serving_authority) = reload::serving_pair(config, &authority, key_folder)?;
        let admin = authority.admin(key_folder)?;
        Ok(Keys { folder, authority, serving, serving_authority, admin })
    }
}

fn key_folder<'a>(config: &Config, folder: &'a DataDir) -> KeyFolder<'a> {
    KeyFolder((!config.ephemeral).then_some(folder))
}

/// The objects, and the parts that decide about access to them.
pub(super) struct Parts {
    pub(super) signing: TokenSigning,
    pub(super) objects: Objects,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) authorizers: Arc<Reloadable>,
    lasting: LastingAuthorizers,
    pub(super) health: Arc<Health>,
}

impl Parts {
    /// Opens the store. This may wait for the signer of tokens and for etcd.
    pub(super) async fn open(config: &Arc<Config>, keys: &Keys) -> Result<Self, ServeError> {
        let signing = token_signing::start(config, key_folder(config, &keys.folder)).await?;
        let lasting = config.authorization.lasting(config)?;
        let authorizers = config.authorization.start(&lasting)?;
        let access_objects = AccessObjects { rbac: lasting.rbac.clone(), node: lasting.node.clone() };
        let authorizer: Arc<dyn Authorizer> = authorizers.clone();
        let objects = objects::open(config, &keys.folder, authorizer, access_objects).await?;
        let authenticator = authenticator::build(config, &keys.authority, &objects.engine, &signing.keys)?;
        let health = Arc::new(Health::default());
        add_checks(&health, config, &objects);
        Ok(Parts { signing, objects, authenticator: Arc::new(authenticator), authorizers, lasting, health })
    }

    /// Starts the tasks that follow configuration files and objects, and the controllers. They end with the runtime or when the
    /// cache shuts down.
    pub(super) fn start_tasks(&self, config: &Config) {
        let engine = &self.objects.engine;
        tokio::spawn(crate::encryption::follow_readability(self.objects.encryption.clone(), engine.clone()));
        engine.writer().load_access_objects();
        let server_id = upkeep::own_name();
        tokio::spawn(config.authentication.clone().follow(self.authenticator.clone(), server_id.clone()));
        let (lasting, authorizers) = (self.lasting.clone(), self.authorizers.clone());
        tokio::spawn(config.authorization.clone().follow(lasting, authorizers, server_id));
        tokio::spawn(engine.writer().clone().follow_access_objects());
        tokio::spawn(crate::manifests::follow(engine.clone()));
        pintle_controllers::start_flow_objects(engine, bootstrap::flow_objects());
        pintle_controllers::start(engine, config.event_life, |name| config.runs_controller(name));
    }
}

/// The certificates of the listener. `Reload` replaces them when their files change.
pub(super) struct ListenerTls {
    pub(super) certificates: Arc<ServingCertificates>,
    pub(super) config: Arc<ArcSwap<rustls::ServerConfig>>,
}

impl ListenerTls {
    pub(super) fn new(
        config: &Config,
        operation: &Operation,
        keys: &Keys,
        authenticator: &Authenticator,
    ) -> Result<Self, ServeError> {
        let usual = pki::serving_certificate(&keys.serving, keys.folder.path())?;
        let named = reload::named_certificates(operation)?;
        let certificates = Arc::new(ServingCertificates::new(usual, named)?);
        let hints = reload::hints(authenticator);
        let tls = tls::server_config(certificates.clone(), hints, config.http2, &operation.tls)?;
        Ok(ListenerTls { certificates, config: Arc::new(ArcSwap::new(tls)) })
    }
}

/// The other servers that requests are forwarded to: extension servers, and servers on the same etcd.
pub(super) struct OtherServers {
    pub(super) aggregation: Arc<Aggregation>,
    /// The data by which extension servers authenticate the requests of this server.
    pub(super) authentication: watch::Sender<AuthenticationData>,
    pub(super) peers: Option<Arc<Peers>>,
}

impl OtherServers {
    /// Starts to follow them. The tasks end when the cache shuts down.
    pub(super) fn start(config: &Config, engine: &Arc<Engine>) -> Self {
        let aggregation = Aggregation::new(engine.clone(), config.proxying.aggregation.clone());
        let (authentication, authentication_data) = watch::channel(config.proxying.authentication.clone());
        pintle_controllers::start_aggregation(engine, &aggregation, authentication_data);
        let transport = config.proxying.peers.clone().filter(|_| config.gate(upkeep::PEER_PROXY));
        let peers = transport.map(|transport| Peers::new(engine.clone(), &upkeep::own_name(), transport));
        peers.iter().for_each(|peers| _ = tokio::spawn(Arc::clone(peers).run()));
        OtherServers { aggregation, authentication, peers }
    }
}
