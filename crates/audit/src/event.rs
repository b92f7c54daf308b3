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
            object.write_text("kind", "Event");
            object.write_text("apiVersion", "audit.k8s.io/v1");
        }
        object.write_text("level", self.level.name());
        object.write_text("auditID", &self.id);
        object.write_text("stage", self.stage.name());
        object.write_text("requestURI", &self.uri);
        object.write_text("verb", &self.verb);
        object.write_key("user");
        write_user(&self.user, object.out);
        if let Some(user) = &self.impersonated {
            object.write_key("impersonatedUser");
            write_user(user, object.out);
        }
        if let Some(constraint) = &self.impersonation_constraint {
            object.write_key("authenticationMetadata");
            let mut metadata = Writer::open(object.out);
            metadata.write_text("impersonationConstraint", constraint);
            metadata.close();
        }
        if !self.source_ips.is_empty() {
            object.write_texts("sourceIPs", &self.source_ips);
        }
        object.write_nonempty("userAgent", &self.user_agent);
        if let Some(reference) = &self.object {
            object.write_key("objectRef");
            reference.write(object.out);
        }
        if let Some(status) = &self.response_status {
            object.write_key("responseStatus");
            status.write(object.out);
        }
        for (key, document) in
            [("requestObject", &self.request_object), ("responseObject", &self.response_object)]
        {
            if let Some(document) = document {
                object.write_key(key);
                object.out.extend_from_slice(document);
            }
        }
        object.write_text("requestReceivedTimestamp", &self.received);
        object.write_text("stageTimestamp", &self.staged);
        if !self.annotations.is_empty() {
            object.write_key("annotations");
            let mut annotations = Writer::open(object.out);
            self.annotations.iter().for_each(|(key, value)| annotations.write_text(key, value));
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
            object.write_nonempty(key, value);
        }
        object.close();
    }
}

impl ResponseStatus {
    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Writer::open(out);
        object.write_key("metadata");
        object.out.extend_from_slice(b"{}");
        object.write_nonempty("status", &self.status);
        object.write_nonempty("message", &self.message);
        object.write_nonempty("reason", &self.reason);
        if !self.details.is_empty() {
            object.write_key("details");
            object.out.extend_from_slice(&self.details);
        }
        if self.code != 0 {
            object.write_key("code");
            json::write_int(i64::from(self.code), object.out);
        }
        object.close();
    }
}

fn write_user(user: &UserInfo, out: &mut Vec<u8>) {
    let mut object = Writer::open(out);
    object.write_nonempty("username", &user.name);
    object.write_nonempty("uid", &user.uid);
    if !user.groups.is_empty() {
        object.write_texts("groups", &user.groups);
    }
    if !user.extra.is_empty() {
        object.write_key("extra");
        let mut extra = Writer::open(object.out);
        user.extra.iter().for_each(|(key, values)| extra.write_texts(key, values));
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

    fn write_key(&mut self, key: &str) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        json::write_string(key, self.out);
        self.out.push(b':');
    }

    fn write_text(&mut self, key: &str, text: &str) {
        self.write_key(key);
        json::write_string(text, self.out);
    }

    fn write_nonempty(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.write_text(key, text);
        }
    }

    fn write_texts(&mut self, key: &str, texts: &[String]) {
        self.write_key(key);
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
