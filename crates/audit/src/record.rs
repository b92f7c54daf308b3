//! The record of one request: creates an event at each stage and passes it to the sinks.

use crate::event::{Event, ObjectRef};
use crate::notes::Notes;
use crate::policy::{Level, Policy, RequestAttributes, Rules, Stage};
use crate::sink::Sink;
use pintle_auth::UserInfo;
use pintle_metrics::families;
use pintle_value::{Value, json};
use std::sync::Arc;

/// Longest User-Agent that is recorded.
const USER_AGENT_BYTES_MAX: usize = 1024;

/// A policy and the sinks of its events.
pub struct Auditor {
    policy: Policy,
    sinks: Vec<Arc<dyn Sink>>,
}

/// A request that is audited.
pub struct Record {
    auditor: Arc<Auditor>,
    rules: Rules,
    event: Event,
    /// The notes of the handlers.
    pub notes: Arc<Notes>,
    /// The code that is recorded instead of the one of the response.
    code: Option<u16>,
}

/// The attributes of a request when it is received.
#[expect(missing_docs, reason = "the names are those of requests")]
pub struct Received<'a> {
    pub attributes: RequestAttributes<'a>,
    pub version: &'a str,
    pub id: &'a str,
    pub uri: &'a str,
    pub user_agent: &'a str,
    pub source_ips: Vec<String>,
    pub received: String,
}

impl Auditor {
    /// Creates an auditor that sends the events of `policy` to all `sinks`.
    pub fn new(policy: Policy, sinks: Vec<Arc<dyn Sink>>) -> Arc<Self> {
        Arc::new(Auditor { policy, sinks })
    }

    /// Begins the record of a request; `None` if the policy does not record it.
    pub fn begin(self: &Arc<Self>, request: Received<'_>) -> Option<Record> {
        let rules = self.policy.evaluate(&request.attributes);
        families::AUDIT_LEVELS.inc(&[rules.level.name()]);
        if rules.level == Level::None {
            return None;
        }
        let attributes = &request.attributes;
        let object = attributes.resource_request.then(|| ObjectRef {
            resource: attributes.resource.to_string(),
            namespace: attributes.namespace.to_string(),
            name: attributes.name.to_string(),
            group: attributes.group.to_string(),
            version: request.version.to_string(),
            subresource: attributes.subresource.to_string(),
            ..ObjectRef::default()
        });
        let event = Event {
            level: rules.level,
            id: request.id.into(),
            stage: Stage::RequestReceived,
            uri: request.uri.into(),
            verb: attributes.verb.into(),
            user: Arc::new(attributes.user.cloned().unwrap_or_default()),
            impersonated: None,
            impersonation_constraint: None,
            source_ips: request.source_ips.into(),
            user_agent: shorten(request.user_agent).into(),
            object,
            response_status: None,
            request_object: None,
            response_object: None,
            staged: request.received.clone(),
            received: request.received.into(),
            annotations: Default::default(),
        };
        let notes = Notes::new(rules.level, rules.omit_managed_fields);
        Some(Record { auditor: Arc::clone(self), rules: rules.clone(), event, notes, code: None })
    }

    /// Writes the queued events and waits for that.
    pub async fn close(&self) {
        for sink in &self.sinks {
            sink.close().await;
        }
    }
}

impl Record {
    /// Sets the user that is impersonated.
    pub fn impersonates(&mut self, user: &UserInfo, constraint: &str) {
        self.event.impersonated = Some(Arc::new(user.clone()));
        self.event.impersonation_constraint = Some(constraint).filter(|c| !c.is_empty()).map(Into::into);
    }

    /// Whether the bodies of responses are recorded.
    pub fn wants_response(&self) -> bool {
        self.event.level == Level::RequestResponse
    }

    /// Records this code instead of the one of the response.
    pub fn record_code(&mut self, code: u16) {
        self.code = Some(code);
    }

    /// Sets the code of the response.
    pub fn answered(&mut self, code: u16) {
        self.event.response_status.get_or_insert_default().code = self.code.unwrap_or(code);
    }

    /// Sets the message of the response, which a body replaces.
    pub fn response_message(&mut self, message: String) {
        self.event.response_status.get_or_insert_default().message = message;
    }

    /// Sets the body of the response, if it is an object in JSON. A `Status` is recorded at all levels.
    pub fn response_body(&mut self, body: &[u8]) {
        let Ok(parsed) = json::parse(body) else { return };
        let mut tree = parsed.value;
        let kind = tree.str_at(&["kind"]).to_string();
        if kind.is_empty() || tree.str_at(&["apiVersion"]).is_empty() {
            return;
        }
        if kind == "Status" {
            self.response_is_status(&tree);
        }
        if self.wants_response() {
            if self.rules.omit_managed_fields {
                remove_managed_fields(&mut tree);
            }
            let mut out = Vec::with_capacity(body.len());
            json::print(&tree, &mut out);
            self.event.response_object = Some(out.into());
        }
    }

    fn response_is_status(&mut self, tree: &Value) {
        let status = self.event.response_status.get_or_insert_default();
        status.status = tree.str_at(&["status"]).to_string();
        status.message = tree.str_at(&["message"]).to_string();
        status.reason = tree.str_at(&["reason"]).to_string();
        if let Some(details) = tree.get("details") {
            status.details.clear();
            json::print(details, &mut status.details);
        }
    }

    /// Creates the event of a stage. Returns false if a strict sink could not store it.
    pub async fn stage(&mut self, stage: Stage, now: String) -> bool {
        match self.make_event(stage, now) {
            Some(event) => self.auditor.send(&event).await,
            None => true,
        }
    }

    /// Records a stage without waiting, for the end of a streamed body.
    pub fn stage_later(mut self, stage: Stage, now: String) {
        if let Some(event) = self.make_event(stage, now) {
            let auditor = Arc::clone(&self.auditor);
            // If the runtime is shutting down, nothing can be written any more.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { auditor.send(&event).await });
            }
        }
    }

    fn make_event(&mut self, stage: Stage, now: String) -> Option<Event> {
        if !self.rules.records(stage) {
            return None;
        }
        families::AUDIT_EVENTS.inc(&[]);
        self.event.stage = stage;
        self.event.staged = now;
        let mut event = self.event.clone();
        self.notes.read(|noted| {
            event.annotations = noted.annotations.clone();
            event.request_object = noted.request_object.clone();
            if let (Some(object), Some([namespace, name, uid, version])) =
                (&mut event.object, &noted.metadata)
            {
                for (field, value) in [
                    (&mut object.namespace, namespace),
                    (&mut object.name, name),
                    (&mut object.uid, uid),
                    (&mut object.resource_version, version),
                ] {
                    if field.is_empty() {
                        field.clone_from(value);
                    }
                }
            }
        });
        Some(event)
    }
}

impl Auditor {
    async fn send(&self, event: &Event) -> bool {
        let mut stored = true;
        for sink in &self.sinks {
            stored &= sink.process(event).await || !sink.is_strict();
        }
        stored
    }
}

fn remove_managed_fields(tree: &mut Value) {
    tree.remove_at(&["metadata", "managedFields"]);
    if let Some(items) = tree.at_mut(&["items"]).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(|item| _ = item.remove_at(&["metadata", "managedFields"]));
    }
}

fn shorten(user_agent: &str) -> String {
    if user_agent.len() <= USER_AGENT_BYTES_MAX {
        return user_agent.to_string();
    }
    let end = (0..=USER_AGENT_BYTES_MAX).rev().find(|at| user_agent.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...TRUNCATED", user_agent.get(..end).unwrap_or(""))
}
