//! Group certificates.k8s.io.

pub(crate) mod certificatesigningrequest;
mod pem;

pub use pem::certificate_request_common_name;
