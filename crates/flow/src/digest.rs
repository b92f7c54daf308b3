//! `Digest`: what flow schemas look at in a request.

/// A request, as far as classification needs it. Nothing is copied for it.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of RequestInfo and UserInfo")]
pub struct Digest<'a> {
    pub user: &'a str,
    pub groups: &'a [String],
    pub verb: &'a str,
    pub resource_request: bool,
    pub path: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
}
