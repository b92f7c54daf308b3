//! Parts of OpenAPI documents: the paths and schemas of one custom resource or built-in group, rendered when first
//! requested and cached until what they describe changes.

use super::model::Dialect;
use super::operations::Paths;
use super::proto;
use super::schemas;
use super::text::Text;
use pintle_value::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Json,
    Protobuf,
}

/// The unrendered content of a part.
pub(super) struct Content {
    pub(super) paths: Paths,
    pub(super) schemas: Map,
    /// Whether the content is part of the server rather than of a custom resource.
    pub(super) installed: bool,
}

/// A part in every form that was requested.
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
    /// The schemas to which the part refers.
    pub(super) uses: BTreeSet<String>,
}

/// One path or schema.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    /// In JSON with a leading comma, in protobuf as a whole field.
    pub(super) text: Arc<Text>,
}

impl Part {
    fn cell(&self, dialect: Dialect, form: Form) -> &OnceLock<Members> {
        let forms = if dialect == Dialect::V2 { &self.v2 } else { &self.v3 };
        if form == Form::Json { &forms.json } else { &forms.protobuf }
    }

    /// Returns whether this form has been rendered.
    pub(super) fn is_made(&self, dialect: Dialect, form: Form) -> bool {
        self.cell(dialect, form).get().is_some()
    }

    /// The rendered members; `content` is called the first time.
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
    /// Paths and definitions of a document of OpenAPI v2.
    pub(super) fn of_trees(paths: &[(String, Value)], definitions: &[(String, Value)], form: Form) -> Self {
        let paths = paths.iter().map(|(name, item)| Member::path_member(name, item, Dialect::V2, form));
        let schemas =
            definitions.iter().map(|(name, item)| Member::schema_member(name, item, Dialect::V2, form));
        Members { paths: paths.collect(), schemas: schemas.collect(), uses: BTreeSet::new() }
    }

    fn new(content: &Content, dialect: Dialect, form: Form) -> Self {
        let mut uses = BTreeSet::new();
        let mut paths = Vec::with_capacity(content.paths.len());
        for (path, operations) in &content.paths {
            let item = dialect.path_item(operations);
            // The document of OpenAPI v2 has all that the operations of the server refer to. Custom resources refer
            // to nothing else in it, and there may be very many.
            if dialect == Dialect::V3 || content.installed {
                schemas::references(&item, 0, &mut uses);
            }
            paths.push(Member::path_member(path, &item, dialect, form));
        }
        let mut own = Vec::with_capacity(content.schemas.len());
        for (name, schema) in content.schemas.iter() {
            if dialect == Dialect::V3 {
                schemas::references(schema, 0, &mut uses);
            }
            own.push(Member::schema_member(name, schema, dialect, form));
        }
        Members { paths, schemas: own, uses }
    }
}

impl Member {
    fn path_member(name: &str, item: &Value, dialect: Dialect, form: Form) -> Self {
        let text = match form {
            Form::Json => in_json(name, item),
            Form::Protobuf => proto::path(name, item, dialect),
        };
        Member { name: name.into(), text: Arc::new(Text::named(name, text)) }
    }

    pub(super) fn schema_member(name: &str, schema: &Value, dialect: Dialect, form: Form) -> Self {
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
