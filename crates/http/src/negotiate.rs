//! Content negotiation: the media type of answers, and the accepted media types of bodies.

use pintle_meta::{Status, strconv};
use pintle_metrics::Notation;
use pintle_value::Str;
use std::sync::{Arc, Mutex, PoisonError};

/// A media type that can be negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Media {
    Json,
    Yaml,
    Protobuf,
    Cbor,
}

impl Media {
    /// All encodings, in the order in which error messages list them.
    pub const ALL: &'static [Media] = &[Media::Json, Media::Yaml, Media::Protobuf, Media::Cbor];
    /// The encodings of endpoints that are not resources.
    pub const WITHOUT_CBOR: &'static [Media] = &[Media::Json, Media::Yaml, Media::Protobuf];

    /// The encodings of resources, with or without CBOR.
    pub fn served(cbor: bool) -> &'static [Media] {
        if cbor { Media::ALL } else { Media::WITHOUT_CBOR }
    }

    /// The media type's name.
    pub fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
            Media::Protobuf => "application/vnd.kubernetes.protobuf",
            Media::Cbor => "application/cbor",
        }
    }

    /// The media type of its event stream, if there is one.
    pub fn stream_name(self) -> Option<&'static str> {
        match self {
            Media::Json => Some("application/json;stream=watch"),
            Media::Yaml => None,
            Media::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
            Media::Cbor => Some("application/cbor-seq"),
        }
    }

    fn subtype(self) -> &'static str {
        self.name().strip_prefix("application/").unwrap_or_default()
    }
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Encoding {
    Json { pretty: bool },
    Yaml,
    Protobuf,
    Cbor,
}

impl Encoding {
    /// JSON in one line.
    pub const JSON: Encoding = Encoding::Json { pretty: false };

    /// The encoding's media type.
    pub fn media(self) -> Media {
        match self {
            Encoding::Json { .. } => Media::Json,
            Encoding::Yaml => Media::Yaml,
            Encoding::Protobuf => Media::Protobuf,
            Encoding::Cbor => Media::Cbor,
        }
    }

    fn of(media: Media, pretty: bool) -> Self {
        match media {
            Media::Json => Encoding::Json { pretty },
            Media::Yaml => Encoding::Yaml,
            Media::Protobuf => Encoding::Protobuf,
            Media::Cbor => Encoding::Cbor,
        }
    }
}

/// Version of `meta.k8s.io` that a transformed answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum MetaVersion {
    V1,
    V1beta1,
}

/// A transformation of the answer (`as=Table`, `as=PartialObjectMetadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The object itself.
    None,
    /// A Table.
    Table(MetaVersion),
    /// The metadata of an object.
    PartialObjectMetadata(MetaVersion),
    /// Metadata of a list.
    PartialObjectMetadataList(MetaVersion),
}

/// The negotiated representation of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// How the answer is encoded.
    pub encoding: Encoding,
    /// The form that objects are converted to: as they are, a Table or metadata.
    pub transform: Transform,
    /// The media types that the server offers.
    pub offered: &'static [Media],
}

/// The client's `Accept` header and related hints.
#[derive(Clone, Debug, Default)]
pub struct Accept {
    header: Arc<Header>,
    /// Whether to indent the output for people: `?pretty`, curl, Wget, browsers.
    pub pretty: bool,
}

/// A parsed `Accept` header.
#[derive(Debug, Default)]
struct Header {
    clauses: Vec<Clause>,
    /// The header's value; "" counts as absent.
    text: String,
}

/// The longest `Accept` header that a connection remembers.
const REMEMBERED_BYTES_MAX: usize = 1024;

/// The last `Accept` header of a connection: most clients send the same one with each request.
#[derive(Default)]
pub(crate) struct LastAccept(Mutex<Arc<Header>>);

impl LastAccept {
    /// Like [`Accept::parse`].
    pub(crate) fn parse(&self, header: &str, pretty: Option<&str>, user_agent: &str) -> Accept {
        if header.len() > REMEMBERED_BYTES_MAX {
            return Accept::parse(header, pretty, user_agent);
        }
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.text != header {
            *last = Arc::new(Header::parse(header));
        }
        Accept { header: Arc::clone(&last), pretty: is_pretty(pretty, user_agent) }
    }
}

/// One clause of an `Accept` header.
#[derive(Clone, Debug, Default)]
struct Clause {
    type_: Str,
    subtype: Str,
    q: f32,
    params: Vec<(Str, Str)>,
}

/// Group, version and kind of a requested transformation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Convert {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// The media types and transformations that an endpoint offers.
pub(crate) struct Offer<'a> {
    pub(crate) media: &'a [Media],
    /// Returns whether this media type can be served with this transformation.
    pub(crate) allows: &'a dyn Fn(Media, Option<&Convert>) -> bool,
    /// Whether the parameter `sv=v1` is supported.
    pub(crate) server_version: bool,
}

/// The clause that was chosen.
pub(crate) struct Chosen {
    pub(crate) encoding: Encoding,
    pub(crate) convert: Option<Convert>,
    /// The parameter `profile`, which says what discovery includes.
    pub(crate) profile: String,
}

/// The format of a page such as `/flagz`.
pub(crate) enum PageForm {
    /// Text for people.
    Text,
    /// An object of this version.
    Object(Encoding, String),
}

/// How many clauses of a header are considered.
const CLAUSES_MAX: usize = 100;

impl Accept {
    /// Parses `Accept`, `?pretty` and `User-Agent`.
    pub fn parse(header: &str, pretty: Option<&str>, user_agent: &str) -> Self {
        Accept { header: Arc::new(Header::parse(header)), pretty: is_pretty(pretty, user_agent) }
    }

    /// The first clause that can be served; JSON without a header.
    pub(crate) fn choose(&self, offer: &Offer<'_>) -> Option<Chosen> {
        if self.header.text.is_empty() {
            let first = offer.media.first()?;
            let encoding = Encoding::of(*first, self.pretty);
            return Some(Chosen { encoding, convert: None, profile: String::new() });
        }
        let pairs = self.header.clauses.iter().flat_map(|c| offer.media.iter().map(move |m| (c, *m)));
        pairs.filter(|(clause, media)| clause.names(*media)).find_map(|(clause, media)| {
            let streams = media.stream_name().is_some();
            let (convert, pretty) = clause.options(streams, offer.server_version)?;
            let encoding = Encoding::of(media, pretty || self.pretty);
            let profile = clause.param("profile").to_string();
            (offer.allows)(media, convert.as_ref()).then_some(Chosen { encoding, convert, profile })
        })
    }

    /// The format of a page: text, or an object of a kind that `allows` accepts.
    pub(crate) fn for_page(&self, cbor: bool, allows: impl Fn(&Convert) -> bool) -> Option<PageForm> {
        if self.header.text.trim().is_empty() {
            return Some(PageForm::Text);
        }
        let objects = [Some(Media::Json), Some(Media::Yaml), None, Some(Media::Cbor).filter(|_| cbor)];
        // Text is third, after JSON and YAML; CBOR, the last one, may be missing.
        let offered = if cbor { &objects[..] } else { &objects[..3] };
        let pairs =
            self.header.clauses.iter().flat_map(|clause| offered.iter().map(move |media| (clause, *media)));
        pairs.into_iter().find_map(|(clause, media)| match media {
            Some(media) if clause.names(media) => {
                let (convert, pretty) = clause.options(media.stream_name().is_some(), false)?;
                let convert = convert.filter(&allows)?;
                Some(PageForm::Object(Encoding::of(media, pretty || self.pretty), convert.version))
            }
            None if clause.names_text() => {
                let (convert, _) = clause.options(false, false)?;
                convert.is_none().then_some(PageForm::Text)
            }
            _ => None,
        })
    }

    /// The encoding of errors; `None` is indented JSON, for clients that accept nothing available.
    pub fn for_errors(&self, media: &[Media]) -> Option<Encoding> {
        let plain = |_: Media, convert: Option<&Convert>| convert.is_none();
        self.choose(&Offer { media, allows: &plain, server_version: false }).map(|c| c.encoding)
    }

    /// The encoding of a resource's object. `standard` are the media types of the object itself, `all` those of its
    /// transformations.
    pub fn for_resource(
        &self,
        all: &'static [Media],
        standard: &[Media],
        table: bool,
    ) -> Result<Negotiated, Status> {
        let allows = |media: Media, convert: Option<&Convert>| match convert {
            None => standard.contains(&media),
            Some(convert) => match transform_of(convert) {
                Some(Transform::Table(_)) => table && matches!(media, Media::Json | Media::Yaml),
                Some(_) => true,
                None => false,
            },
        };
        let chosen = self.choose(&Offer { media: all, allows: &allows, server_version: true });
        let Some(chosen) = chosen else { return Err(Status::not_acceptable(&names(all))) };
        let transform = chosen.convert.as_ref().and_then(transform_of).unwrap_or(Transform::None);
        Ok(Negotiated { encoding: chosen.encoding, transform, offered: all })
    }

    /// The format of metrics, as Prometheus' own library negotiates it: a notation of protobuf, or text (`None`); and how names
    /// are escaped, which makes no difference to the names of this server. OpenMetrics is not offered.
    pub(crate) fn for_metrics(&self) -> (Option<Notation>, &'static str) {
        const ESCAPINGS: [&str; 4] = ["allow-utf-8", "underscores", "dots", "values"];
        let mut escaping = "underscores";
        for clause in &self.header.clauses {
            let param = |name: &str| clause.param(name);
            escaping = ESCAPINGS.into_iter().find(|known| *known == param("escaping")).unwrap_or(escaping);
            match (clause.type_.as_str(), clause.subtype.as_str()) {
                ("application", "vnd.google.protobuf")
                    if param("proto") == "io.prometheus.client.MetricFamily" =>
                {
                    match param("encoding") {
                        "delimited" => return (Some(Notation::Delimited), escaping),
                        "text" => return (Some(Notation::Text), escaping),
                        "compact-text" => return (Some(Notation::Compact), escaping),
                        _ => {}
                    }
                }
                ("text", "plain") if matches!(param("version"), "" | "0.0.4") => return (None, escaping),
                _ => {}
            }
        }
        (None, escaping)
    }

    /// Types and subtypes that the client accepts, best first; any without a header.
    pub(crate) fn ranges(&self) -> Vec<(&str, &str)> {
        if self.header.text.is_empty() {
            return vec![("*", "*")];
        }
        self.header.clauses.iter().map(|clause| (clause.type_.as_str(), clause.subtype.as_str())).collect()
    }

    /// Returns whether the header contains a media type that `is_produced`, compared literally, with no wildcard
    /// but `*/*`, as kube-apiserver's router does.
    pub(crate) fn names_any_of(&self, is_produced: impl Fn(&str) -> bool) -> bool {
        if self.header.text.is_empty() {
            return true;
        }
        self.header.text.split(',').any(|clause| {
            let name = clause.split(';').next().unwrap_or("").trim_matches(' ');
            name == "*/*" || is_produced(name)
        })
    }
}

impl Header {
    fn parse(text: &str) -> Self {
        let mut clauses: Vec<Clause> = text.split(',').take(CLAUSES_MAX).filter_map(parse_clause).collect();
        in_order(&mut clauses);
        Header { clauses, text: text.to_string() }
    }
}

/// Returns whether the output is indented, by `?pretty` and `User-Agent`.
fn is_pretty(pretty: Option<&str>, user_agent: &str) -> bool {
    match pretty {
        Some(text) if !text.is_empty() => strconv::parse_bool(text).unwrap_or(false),
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| user_agent.starts_with(agent)),
    }
}

impl Clause {
    /// Returns whether this clause sorts before the other. This is not a total order: compared with a wildcard of
    /// higher quality, a name comes before it in either direction. kube-apiserver's library does so.
    fn precedes(&self, other: &Clause) -> bool {
        self.q > other.q
            || self.type_ != "*" && other.type_ == "*"
            || self.subtype != "*" && other.subtype == "*"
    }

    /// The value of a parameter, or "". As in Go's map, the last one counts.
    fn param(&self, name: &str) -> &str {
        let given = self.params.iter().rev().find(|(key, _)| key == name);
        given.map_or("", |(_, value)| value.as_str())
    }

    /// The parameters of the clause: a transformation, and whether to indent. `None` if they cannot be served.
    fn options(&self, streams: bool, server_version: bool) -> Option<(Option<Convert>, bool)> {
        let mut convert: Option<Convert> = None;
        let mut pretty = false;
        for (key, value) in &self.params {
            match key.as_str() {
                "as" => convert.get_or_insert_default().kind = value.to_string(),
                "g" => convert.get_or_insert_default().group = value.to_string(),
                "v" => convert.get_or_insert_default().version = value.to_string(),
                "stream" if !(value.is_empty() || value == "watch" && streams) => return None,
                "sv" if !(value.is_empty() || server_version && value == "v1") => return None,
                "pretty" => pretty |= value == "1",
                _ => {}
            }
        }
        Some((convert, pretty))
    }

    fn names_text(&self) -> bool {
        match self.type_.as_str() {
            "text" => matches!(self.subtype.as_str(), "*" | "plain"),
            "*" => self.subtype == "*",
            _ => false,
        }
    }

    fn names(&self, media: Media) -> bool {
        match self.type_.as_str() {
            "application" => self.subtype == "*" || self.subtype == media.subtype(),
            "*" => self.subtype == "*",
            _ => false,
        }
    }
}

/// Insertion sort, as Go uses for few elements: because `precedes` is not a total order, the algorithm affects the
/// result.
fn in_order(clauses: &mut [Clause]) {
    for end in 1..clauses.len() {
        for at in (1..=end).rev() {
            let Some([.., before, clause]) = clauses.get_mut(..=at) else { break };
            if !clause.precedes(before) {
                break;
            }
            std::mem::swap(before, clause);
        }
    }
}

fn parse_clause(text: &str) -> Option<Clause> {
    let blank = |text: &str| Str::from(text.trim_matches(' '));
    let mut parts = text.split(';');
    let name = parts.next()?;
    let (type_, subtype) = name.split_once('/').unwrap_or((name, ""));
    let type_ = blank(type_);
    let subtype = match subtype.split_once('/').unwrap_or((subtype, "")) {
        ("", "") if type_ == "*" => "*".into(),
        ("", "") => return None,
        (subtype, "") => blank(subtype),
        _ => return None,
    };
    let mut clause = Clause { type_, subtype, q: 1.0, params: Vec::new() };
    for param in parts {
        let Some((key, value)) = param.split_once('=') else { continue };
        // A parameter without value, or with several `=`, is ignored.
        let (value, more) = value.split_once('=').unwrap_or((value, ""));
        if !more.is_empty() || value.is_empty() {
            continue;
        }
        match blank(key) {
            key if key == "q" => clause.q = value.parse().unwrap_or(0.0),
            key => clause.params.push((key, blank(value))),
        }
    }
    Some(clause)
}

fn transform_of(convert: &Convert) -> Option<Transform> {
    let version = match (convert.group.as_str(), convert.version.as_str()) {
        ("meta.k8s.io", "v1") => MetaVersion::V1,
        ("meta.k8s.io", "v1beta1") => MetaVersion::V1beta1,
        _ => return None,
    };
    match convert.kind.as_str() {
        "Table" => Some(Transform::Table(version)),
        "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata(version)),
        "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList(version)),
        _ => None,
    }
}

/// Names of media types, for messages.
pub fn names(media: &[Media]) -> Vec<&'static str> {
    media.iter().map(|m| m.name()).collect()
}

/// Names of the streams of media types, for messages.
pub fn stream_names(media: &[Media]) -> Vec<&'static str> {
    media.iter().filter_map(|m| m.stream_name()).collect()
}

/// The media type of a body among `supported`, from its `Content-Type`; the first one if the header is absent.
pub fn of_body(content_type: &str, supported: &[Media]) -> Result<Media, Status> {
    let refused = || Status::unsupported_media_type(&names(supported));
    if content_type.is_empty() {
        return supported.first().copied().ok_or_else(refused);
    }
    let name = media_type(content_type).ok_or_else(refused)?;
    supported.iter().copied().find(|m| m.name() == name).ok_or_else(refused)
}

/// Returns whether kube-apiserver's router accepts the `Content-Type` of a request without a body: it compares literally.
pub fn consumes(content_type: &str, supported: &[Media]) -> bool {
    let mut types = content_type.split(',').map(|t| t.split(';').next().unwrap_or("").trim_matches(' '));
    content_type.is_empty() || types.any(|t| supported.iter().any(|media| media.name() == t))
}

/// The type of a `Content-Type` in lower case, if the header is well-formed.
pub fn media_type(content_type: &str) -> Option<String> {
    let (name, params) = content_type.split_at(content_type.find(';').unwrap_or(content_type.len()));
    let name = name.trim().to_lowercase();
    let (type_, subtype) = name.split_once('/')?;
    (is_token(type_) && is_token(subtype) && are_params(params)).then_some(name)
}

/// Returns whether these are `; name=value` pairs with unique names. A semicolon may follow the last one.
fn are_params(mut rest: &str) -> bool {
    let mut seen = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest.trim() == ";" {
            return true;
        }
        let Some((name, after)) = param(rest) else { return false };
        let name = name.to_lowercase();
        if seen.contains(&name) {
            return false;
        }
        seen.push(name);
        rest = after;
    }
}

/// Splits off the name of the first parameter.
fn param(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = token(text.strip_prefix(';')?.trim_start());
    let value = rest.trim_start().strip_prefix('=')?.trim_start();
    let rest = match value.strip_prefix('"') {
        Some(quoted) => after_quoted(quoted)?,
        None => {
            let (value, rest) = token(value);
            if value.is_empty() {
                return None;
            }
            rest
        }
    };
    (!name.is_empty()).then_some((name, rest))
}

/// The text after a quoted string whose opening quote was consumed.
fn after_quoted(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return text.get(at.saturating_add(1)..),
            b'\r' | b'\n' => return None,
            _ => {}
        }
    }
    None
}

fn token(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|b| !is_token_byte(b)).unwrap_or(text.len()))
}

fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_text_or_protobuf() {
        let proto = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
        for (header, want) in [
            (String::new(), (None, "underscores")),
            (
                format!("{proto};encoding=delimited;q=0.7,text/plain;q=0.3"),
                (Some(Notation::Delimited), "underscores"),
            ),
            (format!("{proto};encoding=delimited;q=0.1,text/plain;q=0.3"), (None, "underscores")),
            (format!("{proto};encoding=text;escaping=dots"), (Some(Notation::Text), "dots")),
            (format!("{proto};encoding=compact-text;escaping=x"), (Some(Notation::Compact), "underscores")),
            (format!("{proto};encoding=json"), (None, "underscores")),
            ("application/vnd.google.protobuf".into(), (None, "underscores")),
            ("application/openmetrics-text;version=1.0.0".into(), (None, "underscores")),
            // A clause that is not served still decides how names are escaped.
            ("text/plain;version=1.0.0;escaping=allow-utf-8".into(), (None, "allow-utf-8")),
        ] {
            assert_eq!(Accept::parse(&header, None, "").for_metrics(), want, "{header}");
        }
    }

    fn resource(header: &str) -> String {
        match Accept::parse(header, None, "").for_resource(Media::ALL, Media::ALL, true) {
            Ok(Negotiated { encoding, transform: Transform::None, .. }) => {
                encoding.media().subtype().to_string()
            }
            Ok(n) => format!("{} {:?}", n.encoding.media().subtype(), n.transform),
            Err(status) => status.code.to_string(),
        }
    }

    #[test]
    fn the_best_clause_that_can_be_served_wins() {
        for (header, want) in [
            ("", "json"),
            ("*/*", "json"),
            ("application/json;q=0.1, application/yaml;q=0.9", "yaml"),
            ("text/html, application/xml, */*;q=0.1", "json"),
            ("*/*, application/yaml", "yaml"),
            ("text/html", "406"),
            ("application/*;q=0.2, application/yaml;q=0.1", "yaml"),
            ("application/yaml;q=0.1, application/*;q=0.2", "json"),
            ("application/json;as=;v=;g=", "json"),
            ("application/yaml/", "yaml"),
            ("application/yaml; q= 1, application/json;q=0.1", "json"),
            ("APPLICATION/YAML", "406"),
            ("application/yaml;charset=utf-8;foo=bar", "yaml"),
            ("application/json;stream=watch", "json"),
            ("application/json;stream=other", "406"),
            ("application/yaml;q=0", "yaml"),
            ("application/json;q=0.5, application/yaml;q=high", "json"),
            (",,application/yaml,,", "yaml"),
            ("application/json;sv=v1", "json"),
            ("application/json;sv=v2", "406"),
            ("application/json;as=Table", "406"),
            ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "json Table(V1)"),
            ("application/cbor;as=Table;g=meta.k8s.io;v=v1,application/json", "json"),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                "vnd.kubernetes.protobuf PartialObjectMetadataList(V1)",
            ),
        ] {
            assert_eq!(resource(header), want, "{header}");
        }
    }

    #[test]
    fn people_get_indented_json() {
        let pretty = |query, agent, header| {
            Accept::parse(header, query, agent).for_errors(Media::ALL)
                == Some(Encoding::Json { pretty: true })
        };
        assert!(pretty(Some("true"), "", ""));
        assert!(pretty(None, "curl/8.5.0", ""));
        assert!(pretty(Some(""), "Wget/1", ""));
        assert!(!pretty(Some("false"), "curl/8.5.0", ""));
        assert!(!pretty(Some("yes"), "", ""));
        assert!(pretty(None, "", "application/json;pretty=1"));
        assert!(!pretty(None, "", "application/json;pretty=true"));
    }

    #[test]
    fn types_of_bodies() {
        for (header, want) in [
            ("", Some(Media::Json)),
            ("application/json; charset=utf-8", Some(Media::Json)),
            ("Application/YAML", Some(Media::Yaml)),
            ("application/json;", Some(Media::Json)),
            ("application/json;;", None),
            ("application/json; charset", None),
            (r#"application/json; a="b;\"c"; d=e"#, Some(Media::Json)),
            ("application/json; a=b; A=c", None),
            ("json", None),
            ("text/plain", None),
        ] {
            assert_eq!(of_body(header, Media::ALL).ok(), want, "{header}");
        }
    }
}
