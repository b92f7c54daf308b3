//! Kinds of `networking.k8s.io`.
pub(crate) mod ingress;
pub(crate) mod ingressclass;
pub(crate) mod ipaddress;
pub(crate) mod networkpolicy;
pub(crate) mod servicecidr;
