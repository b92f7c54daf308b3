//! One audit event and its JSON.

use crate::policy::{Level, Stage};
use pintle_auth::UserInfo;
use pintle_value::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The object of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct ObjectRef {
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub group: String,
    pub version: String,
    pub resource_version: String,
    pub subresource: String,
}

/// The response to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct ResponseStatus {
    pub status: String,
    pub message: String,
    pub reason: String,
    /// The details in JSON, or empty.
    pub details: Vec<u8>,
    pub code: u16,
}

/// One audit event. Texts and objects are shared by the events of one request.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct Event {
    pub level: Level,
    pub id: Arc<str>,
    pub stage: Stage,
    pub uri: Arc<str>,
    pub verb: Arc<str>,
    pub user: Arc<UserInfo>,
    pub impersonated: Option<Arc<UserInfo>>,
    pub impersonation_constraint: Option<Arc<str>>,
    pub source_ips: Arc<[String]>,
    pub user_agent: Arc<str>,
    pub object: Option<ObjectRef>,
    pub response_status: Option<ResponseStatus>,
    /// The object of the request in JSON.
    pub request_object: Option<Arc<[u8]>>,
    /// The object of the response in JSON.
    pub response_object: Option<Arc<[u8]>>,
    /// The time of arrival, in RFC 3339 with microseconds.
    pub received: Arc<str>,
    pub staged: String,
    pub annotations: BTreeMap<String, String>,
}

impl Event {
    /// The event in JSON, fields in the order of the type. Items of lists have no `kind`.
    pub fn write(&self, with_kind: bool, out: &mut Vec<u8>) {
        let mut object = Writer::open(out);
        if with_kind {
            object.text("kind", "Event");
            object.text("apiVersion", "audit.k8s.io/v1");
        }
        object.text("level", self.level.name());
        object.text("auditID", &self.id);
        object.text("stage", self.stage.name());
        object.text("requestURI", &self.uri);
        object.text("verb", &self.verb);
        object.key("user");
        write_user(&self.user, object.out);
        if let Some(user) = &self.impersonated {
            object.key("impersonatedUser");
            write_user(user, object.out);
        }
        if let Some(constraint) = &self.impersonation_constraint {
            object.key("authenticationMetadata");
            let mut metadata = Writer::open(object.out);
            metadata.text("impersonationConstraint", constraint);
            metadata.close();
        }
        if !self.source_ips.is_empty() {
            object.texts("sourceIPs", &self.source_ips);
        }
        object.nonempty("userAgent", &self.user_agent);
        if let Some(reference) = &self.object {
            object.key("objectRef");
            reference.write(object.out);
        }
        if let Some(status) = &self.response_status {
            object.key("responseStatus");
            status.write(object.out);
        }
        for (key, document) in
            [("requestObject", &self.request_object), ("responseObject", &self.response_object)]
        {
            if let Some(document) = document {
                object.key(key);
                object.out.extend_from_slice(document);
            }
        }
        object.text("requestReceivedTimestamp", &self.received);
        object.text("stageTimestamp", &self.staged);
        if !self.annotations.is_empty() {
            object.key("annotations");
            let mut annotations = Writer::open(object.out);
            self.annotations.iter().for_each(|(key, value)| annotations.text(key, value));
            annotations.close();
        }
        object.close();
    }

    /// The line of the old format.
    pub fn legacy_line(&self) -> String {
        let quoted = |groups: &[String]| format!("\"{}\"", groups.join("\",\""));
        let (mut user, mut groups) = ("<none>", "<none>".to_string());
        if !self.user.name.is_empty() {
            user = &self.user.name;
            if !self.user.groups.is_empty() {
                groups = quoted(&self.user.groups);
            }
        }
        let (as_user, as_groups) = match &self.impersonated {
            None => ("<self>", "<lookup>".to_string()),
            Some(other) if other.groups.is_empty() => (other.name.as_str(), "<lookup>".to_string()),
            Some(other) => (other.name.as_str(), quoted(&other.groups)),
        };
        let namespace = self.object.as_ref().map(|o| o.namespace.as_str()).filter(|n| !n.is_empty());
        let response = self.response_status.as_ref().map(|status| status.code.to_string());
        format!(
            "{} AUDIT: id={:?} stage={:?} ip={:?} method={:?} user={user:?} groups={groups:?} as={as_user:?} asgroups={as_groups:?} user-agent={:?} namespace={:?} uri={:?} response=\"{}\"",
            self.received,
            self.id,
            self.stage.name(),
            self.source_ips.first().map_or("<unknown>", String::as_str),
            self.verb,
            self.user_agent,
            namespace.unwrap_or("<none>"),
            self.uri,
            response.as_deref().unwrap_or("<deferred>"),
        )
    }
}

impl ObjectRef {
    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Writer::open(out);
        for (key, value) in [
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiGroup", &self.group),
            ("apiVersion", &self.version),
            ("resourceVersion", &self.resource_version),
            ("subresource", &self.subresource),
        ] {
            object.nonempty(key, value);
        }
        object.close();
    }
}

impl ResponseStatus {
    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Writer::open(out);
        object.key("metadata");
        object.out.extend_from_slice(b"{}");
        object.nonempty("status", &self.status);
        object.nonempty("message", &self.message);
        object.nonempty("reason", &self.reason);
        if !self.details.is_empty() {
            object.key("details");
            object.out.extend_from_slice(&self.details);
        }
        if self.code != 0 {
            object.key("code");
            json::write_int(i64::from(self.code), object.out);
        }
        object.close();
    }
}

fn write_user(user: &UserInfo, out: &mut Vec<u8>) {
    let mut object = Writer::open(out);
    object.nonempty("username", &user.name);
    object.nonempty("uid", &user.uid);
    if !user.groups.is_empty() {
        object.texts("groups", &user.groups);
    }
    if !user.extra.is_empty() {
        object.key("extra");
        let mut extra = Writer::open(object.out);
        user.extra.iter().for_each(|(key, values)| extra.texts(key, values));
        extra.close();
    }
    object.close();
}

/// Writes the members of an object.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Writer<'a> {
    fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Writer { out, first: true }
    }

    fn close(self) {
        self.out.push(b'}');
    }

    fn key(&mut self, key: &str) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        json::write_string(key, self.out);
        self.out.push(b':');
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        json::write_string(text, self.out);
    }

    fn nonempty(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    fn texts(&mut self, key: &str, texts: &[String]) {
        self.key(key);
        self.out.push(b'[');
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            json::write_string(text, self.out);
        }
        self.out.push(b']');
    }
}
