//! Parts of documents: the paths and schemas of one custom resource, or of one group of the server, rendered when a
//! document with them is first asked for and kept as long as what they describe stays the same.

use super::model::Dialect;
use super::operations::Paths;
use super::proto;
use super::schemas;
use super::text::Text;
use pintle_controllers::aggregation::RemoteSpec;
use pintle_value::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Json,
    Protobuf,
}

/// What a part consists of, before it is written.
pub(super) struct Content {
    pub(super) paths: Paths,
    pub(super) schemas: Map,
}

/// A part in all the ways it was asked for.
#[derive(Default)]
pub(crate) struct Part {
    v2: Forms,
    v3: Forms,
}

#[derive(Default)]
struct Forms {
    json: OnceLock<Members>,
    protobuf: OnceLock<Members>,
}

/// A part in one way.
pub(super) struct Members {
    pub(super) paths: Vec<Member>,
    pub(super) schemas: Vec<Member>,
    /// Schemas that it refers to.
    pub(super) uses: BTreeSet<String>,
}

/// One path or schema.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    /// With a comma before it in JSON, as a whole field in protobuf.
    pub(super) text: Arc<Text>,
}

impl Part {
    fn cell(&self, dialect: Dialect, form: Form) -> &OnceLock<Members> {
        let forms = if dialect == Dialect::V2 { &self.v2 } else { &self.v3 };
        if form == Form::Json { &forms.json } else { &forms.protobuf }
    }

    /// Whether it has been asked for.
    pub(super) fn is_made(&self, dialect: Dialect, form: Form) -> bool {
        self.cell(dialect, form).get().is_some()
    }

    /// What it consists of; `content` is asked the first time.
    pub(super) fn members(
        &self,
        dialect: Dialect,
        form: Form,
        content: impl FnOnce() -> Content,
    ) -> &Members {
        self.cell(dialect, form).get_or_init(|| Members::new(&content(), dialect, form))
    }
}

impl Members {
    /// The part of an extension server's document.
    pub(super) fn of_spec(spec: &RemoteSpec, form: Form) -> Self {
        let paths = spec.paths.iter().map(|(name, item)| Member::path(name, item, Dialect::V2, form));
        let schemas =
            spec.definitions.iter().map(|(name, item)| Member::schema(name, item, Dialect::V2, form));
        Members { paths: paths.collect(), schemas: schemas.collect(), uses: BTreeSet::new() }
    }

    fn new(content: &Content, dialect: Dialect, form: Form) -> Self {
        let mut uses = BTreeSet::new();
        let mut paths = Vec::with_capacity(content.paths.len());
        for (path, operations) in &content.paths {
            let item = dialect.path_item(operations);
            // Only documents of OpenAPI v3 leave out what nobody refers to.
            if dialect == Dialect::V3 {
                schemas::references(&item, 0, &mut uses);
            }
            paths.push(Member::path(path, &item, dialect, form));
        }
        let mut own = Vec::with_capacity(content.schemas.len());
        for (name, schema) in content.schemas.iter() {
            if dialect == Dialect::V3 {
                schemas::references(schema, 0, &mut uses);
            }
            own.push(Member::schema(name, schema, dialect, form));
        }
        Members { paths, schemas: own, uses }
    }
}

impl Member {
    fn path(name: &str, item: &Value, dialect: Dialect, form: Form) -> Self {
        let text = match form {
            Form::Json => in_json(name, item),
            Form::Protobuf => proto::path(name, item, dialect),
        };
        Member { name: name.into(), text: Arc::new(Text::named(name, text)) }
    }

    pub(super) fn schema(name: &str, schema: &Value, dialect: Dialect, form: Form) -> Self {
        let text = match form {
            Form::Json => in_json(name, schema),
            Form::Protobuf => proto::schema(name, schema, dialect),
        };
        Member { name: name.into(), text: Arc::new(Text::named(name, text)) }
    }
}

fn in_json(name: &str, value: &Value) -> Vec<u8> {
    let mut out = vec![b','];
    json::write_string(name, &mut out);
    out.push(b':');
    json::print(value, &mut out);
    out.shrink_to_fit();
    out
}
