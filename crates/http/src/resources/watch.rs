//! Watches: a stream of frames, each encoded once for all who are told the same.

use super::Resources;
use super::encode::{encoding_key, write_tree};
use super::transform::{INITIAL_EVENTS_END, Source, Transformer};
use crate::Body;
use crate::api::{ApiRequest, ApiResponse};
use crate::negotiate::{Encoding, Media};
use bytes::{Bytes, BytesMut};
use pintle_cache::{Delivery, Item, Watcher};
use pintle_engine::{Engine, Target};
use pintle_meta::Status;
use pintle_schema::{proto, typed};
use pintle_value::{Value, cbor, json, yaml};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How often a watch that wants bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watch that wants bookmarks gets its last.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Pieces of a watch that may wait for a client that does not read.
const PIECES_MAX: usize = 16;
/// Frames that are ready together go out together, up to this size.
const PIECE_BYTES: usize = 64 * 1024;
/// How long a client may leave a full buffer unread before it is cut off.
const UNREAD_MAX: Duration = Duration::from_secs(60);

impl Resources {
    pub(super) async fn watch(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        let encoding = request.accept.encoding;
        if !target.kind.verbs.watch {
            return Err(Status::method_not_supported(&target.kind.group_resource(), "watch"));
        }
        let list = self.list_request(request, target)?;
        let timeout = match list.options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            _ => self.min_request_timeout.mul_f64(1.0 + self.engine.random.fraction()),
        };
        let writer = Frames {
            engine: self.engine.clone(),
            target: list.target.clone(),
            encoding,
            transformer: self.transformer(request, &list.target)?,
            has_columns: false,
        };
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let bookmarks = list.options.allow_watch_bookmarks;
        match self.engine.watch(&list).await {
            Ok(watched) => {
                let watcher = match bookmarks {
                    true => watched.watcher.with_bookmarks(BOOKMARK_EVERY),
                    false => watched.watcher,
                };
                let announces = watched.announces_initial_end;
                tokio::spawn(follow(writer, watcher, announces, bookmarks, Instant::now() + timeout, sender));
            }
            Err(status) if matches!(status.code, 410 | 504) => {
                // A revision that is gone, or that does not come, is told within the stream.
                _ = sender.try_send(writer.error(&status));
            }
            Err(status) => return Err(status),
        }
        Ok(ApiResponse::new(200, stream_type(encoding), Body::channel(receiver)))
    }
}

fn stream_type(encoding: Encoding) -> &'static str {
    match encoding.media() {
        Media::Json => "application/json",
        Media::Yaml => "application/yaml",
        Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Media::Cbor => "application/cbor-seq",
    }
}

/// Writes what the watcher delivers until it ends, the time is up or the client is gone.
async fn follow(
    mut writer: Frames,
    mut watcher: Watcher,
    announces_initial_end: bool,
    bookmarks: bool,
    end: Instant,
    sender: mpsc::Sender<Bytes>,
) {
    let mut last_bookmark = bookmarks.then(|| end.checked_sub(BOOKMARK_BEFORE_END)).flatten();
    // A watch that is shorter than that has no last bookmark.
    last_bookmark = last_bookmark.filter(|at| *at >= Instant::now());
    loop {
        let until = last_bookmark.unwrap_or(end);
        let item = tokio::select! {
            item = watcher.next() => item,
            () = tokio::time::sleep_until(until) => {
                if last_bookmark.take().is_some() {
                    if let Some(bookmark) = watcher.progress().and_then(|revision| writer.bookmark(revision, false)) {
                        _ = sender.try_send(bookmark);
                    }
                    continue;
                }
                return;
            }
            () = sender.closed() => return,
        };
        if item.is_none() {
            return;
        }
        let mut piece = BytesMut::new();
        let mut next = item;
        let mut closed = false;
        while let Some(item) = next {
            let frame = match item {
                Item::Event(delivery) => match writer.prepare(&delivery).await {
                    Ok(()) => writer.event(&delivery),
                    Err(status) => {
                        piece.extend_from_slice(&writer.error(&status));
                        None
                    }
                },
                Item::InitialEventsEnd(revision) if announces_initial_end => writer.bookmark(revision, true),
                Item::InitialEventsEnd(_) => Some(Bytes::new()),
                Item::Bookmark(revision) => writer.bookmark(revision, false),
                Item::Closed(_) => None,
            };
            match frame {
                Some(frame) => piece.extend_from_slice(&frame),
                None => closed = true,
            }
            next = if piece.len() < PIECE_BYTES && !closed { watcher.try_next() } else { None };
        }
        if !piece.is_empty() {
            match tokio::time::timeout(UNREAD_MAX, sender.send(piece.freeze())).await {
                Ok(Ok(())) => {}
                _ => return,
            }
        }
        if closed {
            return;
        }
    }
}

/// Writes frames of one watch.
struct Frames {
    engine: Arc<Engine>,
    target: Target,
    encoding: Encoding,
    transformer: Option<Transformer>,
    /// Whether the columns of a Table have been sent.
    has_columns: bool,
}

impl Frames {
    /// Has the object of an event converted, where that is left to a webhook.
    async fn prepare(&self, delivery: &Delivery) -> Result<(), Status> {
        self.engine.prepare(&self.target, std::slice::from_ref(delivery.object())).await
    }

    /// The frame of an event; `None` where it cannot be told, which ends the watch.
    fn event(&mut self, delivery: &Delivery) -> Option<Bytes> {
        let Some(transformer) = &self.transformer else {
            let key = encoding_key(self.target.version, self.encoding);
            let made: Result<Bytes, std::convert::Infallible> =
                delivery.frame(key, |delivery| Ok(self.make(delivery)));
            return match made {
                Ok(frame) => Some(frame),
                Err(never) => match never {},
            };
        };
        let make = |delivery: &Delivery, with_columns: bool| {
            let source = Source::Kept(delivery.object(), delivery.revision());
            let object = transformer.event_object(source, with_columns).ok_or(())?;
            Ok::<Bytes, ()>(self.wrap(delivery.kind().as_str(), &object))
        };
        // The first one is this watcher's own, later ones are the same for all.
        let frame = match transformer.has_columns() && !self.has_columns {
            true => make(delivery, true),
            false => delivery.frame(transformer.key(), |delivery| make(delivery, false)),
        };
        self.has_columns = true;
        frame.ok()
    }

    fn make(&self, delivery: &Delivery) -> Bytes {
        let object = delivery.object();
        let kind = delivery.kind().as_str();
        if self.encoding.media() == Media::Json && self.engine.shows_kept_bytes(&self.target) {
            let mut out = Vec::with_capacity(object.json_len_max() + 40);
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            object.write_json_at(delivery.revision(), 0, &mut out);
            out.extend_from_slice(b"}\n");
            return out.into();
        }
        match self.engine.tree_in(&self.target, object, delivery.revision()) {
            Ok(tree) => self.frame(kind, &tree),
            Err(status) => self.error(&status),
        }
    }

    /// A bookmark: an object of the kind with a resourceVersion and nothing else.
    fn bookmark(&mut self, revision: u64, ends_initial_events: bool) -> Option<Bytes> {
        let version = self.target.kind_version();
        let mut tree = Value::object();
        tree.set_at(&["kind"], Value::String(self.target.kind.kind.clone()));
        tree.set_at(
            &["apiVersion"],
            pintle_engine::decode::api_version(&version.group, &version.name).into(),
        );
        tree.set_at(&["metadata", "resourceVersion"], revision.to_string().into());
        if ends_initial_events {
            tree.set_at(&["metadata", "annotations", INITIAL_EVENTS_END], "true".into());
        }
        typed::normalize(&version.schema, &mut tree);
        let Some(transformer) = &self.transformer else { return Some(self.frame("BOOKMARK", &tree)) };
        let object = transformer.event_object(Source::Tree(&tree), !self.has_columns)?;
        self.has_columns = true;
        Some(self.wrap("BOOKMARK", &object))
    }

    fn error(&self, status: &Status) -> Bytes {
        let tree = status.to_value();
        let mut object = Vec::new();
        match self.encoding.media() {
            Media::Protobuf => object = crate::statuspb::encode(status),
            Media::Cbor => cbor::encode_item(&tree, &mut object),
            Media::Json => object = crate::respond::status_json(status, false),
            Media::Yaml => yaml::print(&tree, &mut object),
        }
        self.wrap("ERROR", &object)
    }

    fn frame(&self, kind: &str, tree: &Value) -> Bytes {
        let schema = &self.target.kind_version().schema;
        let mut object = Vec::new();
        match self.encoding.media() {
            Media::Json => typed::encode_json(schema, tree, &mut object),
            Media::Cbor => typed::encode_cbor(schema, tree, &mut object),
            _ => write_tree(schema, tree, self.encoding, &mut object),
        }
        self.wrap(kind, &object)
    }

    fn wrap(&self, kind: &str, object: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(object.len() + 64);
        match self.encoding.media() {
            Media::Json => {
                out.extend_from_slice(b"{\"type\":");
                json::write_string(kind, &mut out);
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(object.strip_suffix(b"\n").unwrap_or(object));
                out.extend_from_slice(b"}\n");
            }
            Media::Protobuf => proto::write_watch_frame(kind, object, &mut out),
            Media::Cbor => cbor::write_watch_event(kind, object, &mut out),
            Media::Yaml => out.extend_from_slice(object),
        }
        out.into()
    }
}
