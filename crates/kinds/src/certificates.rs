//! Group certificates.k8s.io.

pub(crate) mod certificatesigningrequest;
mod pem;
