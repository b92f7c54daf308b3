//! Group certificates.k8s.io.

pub(crate) mod certificatesigningrequest;
pub(crate) mod clustertrustbundle;
mod issued;
mod key;
mod pem;
pub(crate) mod podcertificaterequest;
mod public_key;
mod request_signature;

pub use pem::RequestSubject;
