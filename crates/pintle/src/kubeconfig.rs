//! Kubeconfigs, with which kubectl and other clients reach this server.

use pintle_value::base64;

/// The content of a kubeconfig.
pub(crate) struct Kubeconfig<'a> {
    /// `https://…`
    pub(crate) server: &'a str,
    /// Name of the user.
    pub(crate) user: &'a str,
    /// PEM of the authority that signed the serving certificate.
    pub(crate) authority: &'a str,
    /// PEM of the client certificate.
    pub(crate) certificate: &'a str,
    /// PEM of the certificate's key.
    pub(crate) key: &'a str,
}

impl Kubeconfig<'_> {
    /// The text of the file.
    pub(crate) fn render(&self) -> String {
        let encode = |text: &str| base64::encode(text.as_bytes());
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: pintle
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: pintle
  context:
    cluster: pintle
    user: {user}
current-context: pintle
preferences: {{}}
",
            server = self.server,
            user = quoted(self.user),
            authority = encode(self.authority),
            certificate = encode(self.certificate),
            key = encode(self.key)
        )
    }
}

/// Decodes a `…-data` field.
pub(crate) fn decode(data: &str) -> Option<String> {
    base64::decode(data)
        .ok()
        .filter(|bytes| !bytes.is_empty())
        .and_then(|bytes| String::from_utf8(bytes).ok())
}

/// A name as a YAML scalar: quoted unless it is plain letters.
fn quoted(name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') && name.len() > 5;
    if plain || name == "admin" {
        return name.to_string();
    }
    let mut out = Vec::new();
    pintle_value::json::write_string(name, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
