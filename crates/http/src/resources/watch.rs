//! Watches: a stream of frames, each encoded once for all watchers that receive it.

use super::Resources;
use super::encode::{encoding_key, write_tree};
use super::transform::{INITIAL_EVENTS_END, Source, Transformer};
use super::watch_metrics::WatchMetrics;
use crate::Body;
use crate::api::{ApiRequest, ApiResponse};
use crate::body::{Aborted, Chunks};
use crate::negotiate::{Encoding, Media, stream_names};
use bytes::Bytes;
use pintle_cache::{Delivery, EncodingKey, Item, Watcher};
use pintle_engine::{Engine, Selection, Target, Watched};
use pintle_meta::Status;
use pintle_schema::{proto, typed};
use pintle_value::{Value, cbor, json, yaml};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The interval of bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watch with bookmarks gets the last one.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Frames that are ready are sent together, up to about this size. A connection buffers up to sixteen such pieces for a
/// client that does not read.
const PIECE_BYTES: usize = 16 * 1024;
/// The first and the longest delay before a watch retries a webhook that failed to convert an object.
const CONVERSION_RETRY: Duration = Duration::from_millis(800);
const CONVERSION_RETRY_MAX: Duration = Duration::from_secs(5);

impl Resources {
    pub(super) async fn watch(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        let encoding = request.accept.encoding;
        if !target.kind.verbs.watch {
            return Err(Status::method_not_supported(&target.kind.group_resource(), "watch"));
        }
        let list = self.list_request(request, target)?;
        let timeout = watch_timeout(list.options.timeout_seconds).unwrap_or_else(|| {
            self.min_request_timeout.mul_f64(1.0 + self.engine.storage().random_source().fraction())
        });
        let frames = Frames {
            engine: self.engine.clone(),
            target: list.target.clone(),
            encoding,
            transformer: self.transformer(request, &list.target)?,
            has_columns: false,
        };
        let bookmarks = list.options.allow_watch_bookmarks;
        // The duration of the watch includes the time that the store takes to catch up.
        let now = Instant::now();
        let end = now.checked_add(timeout).unwrap_or(now);
        let body = match self.engine.reader().watch(&list).await {
            Ok(watched) => Body::Chunks(Box::pin(Stream::new(frames, watched, bookmarks, end))),
            // An expired or unreachable revision is reported within the stream.
            Err(status) if matches!(status.code, 410 | 504) => {
                Body::lazy(std::iter::once(frames.error_frame(&status)), None)
            }
            Err(status) => return Err(status),
        };
        // The form of the stream is negotiated last.
        if encoding.media().stream_name().is_none() {
            return Err(Status::not_acceptable(&stream_names(request.accept.offered)));
        }
        Ok(ApiResponse::new(200, stream_type(encoding), body))
    }
}

/// The watch duration that a client requests; `None` leaves it to the server. kube-apiserver converts to 64-bit
/// nanoseconds without a check: too large numbers wrap around, and a negative time has passed at once.
fn watch_timeout(seconds: Option<i64>) -> Option<Duration> {
    let nanoseconds = seconds?.wrapping_mul(1_000_000_000);
    (nanoseconds != 0).then(|| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)))
}

fn stream_type(encoding: Encoding) -> &'static str {
    match encoding.media() {
        Media::Json => "application/json",
        Media::Yaml => "application/yaml",
        Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Media::Cbor => "application/cbor-seq",
    }
}

/// The body of a watch: events until the watcher ends or the time is up. It is only polled when the connection can
/// send, so nothing accumulates for a client that does not read.
struct Stream {
    frames: Frames,
    watcher: Watcher,
    announces_initial_end: bool,
    /// Whether the last bookmark has yet to be sent.
    last_bookmark: bool,
    /// The timer of the last bookmark, and after that of the end.
    due: Pin<Box<Sleep>>,
    end: Instant,
    /// The selectors that apply to converted objects.
    selection: Selection,
    /// An event whose object a webhook is converting. Later events wait for it.
    conversion: Option<Conversion>,
    is_over: bool,
    metrics: WatchMetrics,
}

/// The result of converting an event's object: the event, or nothing if it is no longer selected.
type Conversion = Pin<Box<dyn Future<Output = Option<Delivery>> + Send>>;

impl Stream {
    fn new(frames: Frames, watched: Watched, bookmarks: bool, end: Instant) -> Self {
        let now = Instant::now();
        let watcher =
            if bookmarks { watched.watcher.with_bookmarks(BOOKMARK_EVERY) } else { watched.watcher };
        // A shorter watch has no last bookmark.
        let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|at| bookmarks && *at >= now);
        let metrics = WatchMetrics::new(&frames.target);
        Stream {
            frames,
            watcher,
            announces_initial_end: watched.announces_initial_end,
            last_bookmark: last.is_some(),
            due: Box::pin(sleep_until(last.unwrap_or(end))),
            end,
            selection: watched.selection,
            conversion: None,
            is_over: false,
            metrics,
        }
    }

    /// The frame of an item; `None` ends the watch.
    fn encode_frame(&mut self, item: Item) -> Option<Bytes> {
        match item {
            Item::Event(delivery) if self.frames.converts() => {
                self.conversion = Some(self.frames.convert(delivery, self.selection.clone()));
                Some(Bytes::new())
            }
            Item::Event(delivery) => {
                let frame = self.frames.event(&delivery);
                self.metrics.event(frame.as_ref().map_or(0, Bytes::len));
                frame
            }
            Item::InitialEventsEnd(revision) => {
                self.metrics.initial_end(&self.frames.target, self.announces_initial_end);
                if self.announces_initial_end {
                    self.frames.bookmark(revision, true)
                } else {
                    Some(Bytes::new())
                }
            }
            Item::Bookmark(revision) => self.frames.bookmark(revision, false),
            Item::Closed(_) => None,
        }
    }

    /// The frames that are ready, beginning with that of `item`. A run of frames is joined once for all watchers that
    /// receive it.
    fn piece(&mut self, item: Item) -> Bytes {
        let shared = match &item {
            Item::Event(delivery) => self.frames.shared_key().map(|key| (delivery.clone(), key)),
            _ => None,
        };
        if let Some(run) = shared.as_ref().and_then(|(first, key)| self.watcher.take_run(first, *key)) {
            // Several events at once; their individual sizes are no longer known.
            self.metrics.event(run.len());
            return run;
        }
        let first = self.encode_frame(item);
        self.is_over = first.is_none();
        let first = first.unwrap_or_default();
        if self.is_complete(first.len()) {
            return first;
        }
        let Some(next) = self.watcher.try_next() else { return first };
        let (piece, has_only_events) = self.join(first, next);
        if let Some((first, key)) = shared.filter(|_| has_only_events) {
            self.watcher.store_run(&first, key, &piece);
        }
        piece
    }

    /// Joins the frames that are ready. Also returns whether all after the first are events.
    fn join(&mut self, first: Bytes, mut item: Item) -> (Bytes, bool) {
        let mut has_only_events = true;
        let mut length = first.len();
        let mut frames = vec![first];
        loop {
            has_only_events &= matches!(item, Item::Event(_));
            let frame = self.encode_frame(item);
            self.is_over = frame.is_none();
            length = length.saturating_add(frame.as_ref().map_or(0, Bytes::len));
            frames.extend(frame);
            let next = if self.is_complete(length) { None } else { self.watcher.try_next() };
            match next {
                Some(next) => item = next,
                None => return (frames.concat().into(), has_only_events && !self.is_over),
            }
        }
    }

    /// Returns whether a piece of this length is sent before more frames are added.
    fn is_complete(&self, bytes: usize) -> bool {
        self.is_over || self.conversion.is_some() || bytes >= PIECE_BYTES
    }

    /// Polls the conversion of an event if one is in progress, otherwise the watcher.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(conversion) = &mut self.conversion else {
            return Poll::Ready(ready!(self.watcher.poll_next(cx)).map(|item| self.piece(item)));
        };
        let Poll::Ready(seen) = conversion.as_mut().poll(cx) else {
            // A failing webhook delays the watch, but not beyond the end of the watch or of its resource.
            return self.watcher.poll_ended(cx).map(|()| None);
        };
        self.conversion = None;
        Poll::Ready(match seen {
            None => Some(Bytes::new()),
            Some(delivery) => self.frames.event(&delivery),
        })
    }

    /// Returns `None` when the time is up, and the last bookmark shortly before.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        ready!(self.due.as_mut().poll(cx));
        if !std::mem::take(&mut self.last_bookmark) {
            return Poll::Ready(None);
        }
        self.due.as_mut().reset(self.end);
        // During a conversion the watcher is ahead of the client, so its progress must not be reported.
        let progress = self.watcher.progress().filter(|_| self.conversion.is_none());
        let bookmark = progress.and_then(|revision| self.frames.bookmark(revision, false));
        Poll::Ready(Some(bookmark.unwrap_or_default()))
    }
}

impl Chunks for Stream {
    fn poll_chunk(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let this = &mut *self;
        while !this.is_over {
            // Check the time first: a watch with a steady flow of events must end, too.
            let piece = match this.poll_due(cx) {
                Poll::Ready(bookmark) => bookmark,
                Poll::Pending => ready!(this.poll_events(cx)),
            };
            let Some(piece) = piece else { break };
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(piece)));
            }
        }
        this.is_over = true;
        Poll::Ready(None)
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
    /// Returns whether converting an object may need a webhook.
    fn converts(&self) -> bool {
        self.target.kind.conversion.is_some()
    }

    /// Converts the objects of an event and retries until it succeeds: as in kube-apiserver, the watch waits for the
    /// webhook and does not lose the event.
    fn convert(&self, delivery: Delivery, selection: Selection) -> Conversion {
        let (engine, target) = (self.engine.clone(), self.target.clone());
        Box::pin(async move {
            let mut pause = CONVERSION_RETRY;
            loop {
                match engine.reader().convert_and_select(&target, &selection, &delivery).await {
                    Ok(seen) => return seen,
                    Err(why) => {
                        let resource = target.kind.store_prefix.as_str();
                        tracing::warn!(resource, why, "watches wait for a conversion webhook");
                    }
                }
                tokio::time::sleep(pause).await;
                pause = CONVERSION_RETRY_MAX.min(pause.saturating_mul(2));
            }
        })
    }

    /// The cache key of frames that watchers share; the first frame of a Table is not shared.
    fn shared_key(&self) -> Option<EncodingKey> {
        match &self.transformer {
            _ if self.converts() => None,
            None => Some(encoding_key(self.target.version, self.encoding)),
            Some(transformer) if transformer.has_columns() && !self.has_columns => None,
            Some(transformer) => Some(transformer.key()),
        }
    }

    /// Encodes the frame of an event; `None` if that is impossible, which ends the watch.
    fn event(&mut self, delivery: &Delivery) -> Option<Bytes> {
        let Some(transformer) = &self.transformer else {
            let key = encoding_key(self.target.version, self.encoding);
            let made: Result<Bytes, std::convert::Infallible> =
                delivery.frame(key, |delivery| Ok(self.make_frame(delivery)));
            return match made {
                Ok(frame) => Some(frame),
                Err(never) => match never {},
            };
        };
        let make = |delivery: &Delivery, with_columns: bool| {
            let source = Source::Stored(delivery.object(), delivery.revision());
            let object = transformer.event_object(source, with_columns).ok_or(())?;
            Ok::<Bytes, ()>(self.wrap_event(delivery.kind().as_str(), &object))
        };
        // The first frame has columns and belongs to this watcher; later ones are shared.
        let frame = if transformer.has_columns() && !self.has_columns {
            make(delivery, true)
        } else {
            delivery.frame(transformer.key(), |delivery| make(delivery, false))
        };
        self.has_columns = true;
        frame.ok()
    }

    fn make_frame(&self, delivery: &Delivery) -> Bytes {
        let object = delivery.object();
        let kind = delivery.kind().as_str();
        if self.encoding.media() == Media::Json && self.engine.reader().can_send_stored_bytes(&self.target) {
            let mut out = Vec::with_capacity(object.json_len_max().saturating_add(40));
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            object.write_json_at(delivery.revision(), 0, &mut out);
            out.extend_from_slice(b"}\n");
            return out.into();
        }
        match self.engine.reader().tree_in(&self.target, object, delivery.revision()) {
            Ok(tree) => self.encode_frame(kind, &tree),
            Err(status) => self.error_frame(&status),
        }
    }

    /// A bookmark: an object of the kind with only a resourceVersion.
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
        version.hooks.complete_empty(&mut tree);
        typed::normalize(&version.schema, &mut tree);
        let Some(transformer) = &self.transformer else { return Some(self.encode_frame("BOOKMARK", &tree)) };
        let object = transformer.event_object(Source::Tree(&tree), !self.has_columns)?;
        self.has_columns = true;
        Some(self.wrap_event("BOOKMARK", &object))
    }

    fn error_frame(&self, status: &Status) -> Bytes {
        let tree = status.to_value();
        let mut object = Vec::new();
        match self.encoding.media() {
            Media::Protobuf => object = crate::statuspb::encode(status),
            Media::Cbor => cbor::encode_item(&tree, &mut object),
            Media::Json => object = crate::respond::status_json(status, false),
            Media::Yaml => yaml::print(&tree, &mut object),
        }
        self.wrap_event("ERROR", &object)
    }

    fn encode_frame(&self, kind: &str, tree: &Value) -> Bytes {
        let schema = &self.target.kind_version().schema;
        let mut object = Vec::new();
        match self.encoding.media() {
            Media::Json => typed::encode_json(schema, tree, &mut object),
            Media::Cbor => typed::encode_cbor(schema, tree, &mut object),
            _ => write_tree(schema, tree, self.encoding, &mut object),
        }
        self.wrap_event(kind, &object)
    }

    fn wrap_event(&self, kind: &str, object: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(object.len().saturating_add(64));
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
