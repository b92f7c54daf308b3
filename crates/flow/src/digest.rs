//! `Digest`: the attributes of a request that flow schemas match.

/// The attributes of a request for classification, all borrowed.
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
