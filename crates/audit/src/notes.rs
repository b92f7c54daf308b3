//! Annotations and objects that the handlers of a request add to its audit event. The notes of a request are task-local,
//! so that code far from the filter chain can add to them; there are none if the request is not audited.

use crate::policy::Level;
use pintle_value::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of annotations of one event, and the most bytes of one value; more are dropped.
const ANNOTATIONS_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 256 * 1024;

tokio::task_local! {
    static NOTES: Arc<Notes>;
}

/// The notes of one request.
pub struct Notes {
    level: Level,
    omit_managed_fields: bool,
    inner: Mutex<Noted>,
}

#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) request_object: Option<Arc<[u8]>>,
    /// The JSON of a response that is sent in another encoding.
    pub(crate) response_object: Option<Vec<u8>>,
    /// Namespace, name, uid and resourceVersion of the request's object.
    pub(crate) metadata: Option<[String; 4]>,
}

impl Notes {
    /// Creates the notes of a request that is recorded at this level.
    pub fn new(level: Level, omit_managed_fields: bool) -> Arc<Self> {
        Arc::new(Notes { level, omit_managed_fields, inner: Mutex::default() })
    }

    /// Adds an annotation. As in kube-apiserver, the first value of a key remains.
    pub fn annotate(&self, key: &str, value: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.annotations.len() < ANNOTATIONS_MAX && value.len() <= VALUE_BYTES_MAX {
            inner.annotations.entry(key.to_string()).or_insert_with(|| value.to_string());
        }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Noted) -> T) -> T {
        read(&self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the JSON of the response, if it was noted.
    pub fn take_response(&self) -> Option<Vec<u8>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).response_object.take()
    }

    /// Sets the response that is recorded instead of the one that is sent; `document` is JSON.
    pub fn set_response(&self, document: Vec<u8>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).response_object = Some(document);
    }

    fn note_object(&self, object: &Value) {
        let text = |key: &str| object.str_at(&["metadata", key]).to_string();
        let metadata = ["namespace", "name", "uid", "resourceVersion"].map(text);
        let document = (self.level >= Level::Request).then(|| self.encode_document(object));
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.metadata = Some(metadata);
        inner.request_object = document;
    }

    fn encode_document(&self, object: &Value) -> Arc<[u8]> {
        let mut out = Vec::new();
        if self.omit_managed_fields && object.at(&["metadata", "managedFields"]).is_some() {
            let mut object = object.clone();
            object.remove_at(&["metadata", "managedFields"]);
            json::print(&object, &mut out);
        } else {
            json::print(object, &mut out);
        }
        out.into()
    }
}

/// Runs `work` with these notes.
pub async fn with_notes<T>(notes: Option<Arc<Notes>>, work: impl Future<Output = T>) -> T {
    match notes {
        Some(notes) => NOTES.scope(notes, work).await,
        None => work.await,
    }
}

/// Adds an annotation to the audit event of this task's request, if it is recorded.
pub fn annotate(key: &str, value: impl FnOnce() -> String) {
    _ = NOTES.try_with(|notes| notes.annotate(key, &value()));
}

/// Adds an annotation to events that include objects.
pub fn annotate_with_objects(key: &str, value: impl FnOnce() -> String) {
    _ = NOTES.try_with(|notes| {
        if notes.level >= Level::Request {
            notes.annotate(key, &value());
        }
    });
}

/// Notes the object that this task's request sent, if the request is recorded. Called before ownership and admission.
pub fn note_request_object(object: impl FnOnce() -> Value) {
    _ = NOTES.try_with(|notes| notes.note_object(&object()));
}

/// Notes the object of a response that is sent in another encoding than JSON, if responses are recorded; `bytes` are
/// JSON.
pub fn note_response_document(bytes: impl FnOnce() -> Option<Vec<u8>>) {
    _ = NOTES.try_with(|notes| {
        if notes.level >= Level::RequestResponse
            && let Some(bytes) = bytes()
        {
            notes.inner.lock().unwrap_or_else(PoisonError::into_inner).response_object = Some(bytes);
        }
    });
}

/// Notes a patch or options as they were sent; `bytes` are JSON.
pub fn note_request_document(bytes: impl FnOnce() -> Option<Vec<u8>>) {
    _ = NOTES.try_with(|notes| {
        if notes.level >= Level::Request
            && let Some(bytes) = bytes()
        {
            notes.inner.lock().unwrap_or_else(PoisonError::into_inner).request_object = Some(bytes.into());
        }
    });
}
