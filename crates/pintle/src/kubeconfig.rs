//! `admin.kubeconfig`: how kubectl and other clients reach this server as its administrator.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What a kubeconfig says.
pub(crate) struct Kubeconfig<'a> {
    /// `https://…`
    pub(crate) server: &'a str,
    /// PEM of the authority that signed the serving certificate.
    pub(crate) authority: &'a str,
    /// PEM of the client certificate.
    pub(crate) certificate: &'a str,
    /// PEM of its key.
    pub(crate) key: &'a str,
}

impl Kubeconfig<'_> {
    /// The text of the file.
    pub(crate) fn render(&self) -> String {
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: pintle
  cluster:
    server: {}
    certificate-authority-data: {}
users:
- name: admin
  user:
    client-certificate-data: {}
    client-key-data: {}
contexts:
- name: pintle
  context:
    cluster: pintle
    user: admin
current-context: pintle
preferences: {{}}
",
            self.server,
            encode(self.authority),
            encode(self.certificate),
            encode(self.key)
        )
    }
}
