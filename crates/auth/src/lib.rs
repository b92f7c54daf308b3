//! Who is asking (`authn`) and what they may do (`authz`). Knows certificates, tokens and rules; knows no HTTP.

pub mod authn;
pub mod authz;
pub mod impersonate;
mod user;

pub use authn::{Authenticator, Credentials};
pub use authz::{Attributes, Authorizer, Decision};
pub use user::UserInfo;
