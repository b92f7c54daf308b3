//! Reads: get, and lists whole, in pages, as tables, as metadata, in protobuf.

use std::sync::Arc;

use pintle_testkit::Request;

use super::{Context, LISTED_OBJECTS, config_map, config_maps};
use crate::error::BenchError;
use crate::load::Sender;
use crate::row::Row;

const PAGE_OBJECTS: u64 = 500;
const PAGES_MAX: u64 = LISTED_OBJECTS / PAGE_OBJECTS + 1;

pub(super) async fn measure_get(context: &Context) -> Result<Vec<Row>, BenchError> {
    let namespace = context.namespace("get").await?;
    let path = config_maps(&namespace);
    context.client.post(&path, &config_map("one", 0)).await?;
    let mut rows = Vec::new();
    for clients in [1, 32] {
        let request = Request::new("GET", &format!("{path}/one"));
        rows.push(context.load("get", clients, context.elapsed()).run(move |_| request.clone()).await?);
    }
    context.remove_namespace(&namespace).await?;
    Ok(rows)
}

pub(super) async fn list(context: &Context) -> Result<Vec<Row>, BenchError> {
    list_as(context, "list", "application/json").await
}

pub(super) async fn list_table(context: &Context) -> Result<Vec<Row>, BenchError> {
    list_as(context, "list-table", "application/json;as=Table;v=v1;g=meta.k8s.io").await
}

pub(super) async fn list_metadata(context: &Context) -> Result<Vec<Row>, BenchError> {
    list_as(context, "list-metadata", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        .await
}

pub(super) async fn list_protobuf(context: &Context) -> Result<Vec<Row>, BenchError> {
    list_as(context, "list-protobuf", "application/vnd.kubernetes.protobuf").await
}

async fn list_as(context: &Context, name: &str, accept: &str) -> Result<Vec<Row>, BenchError> {
    let path = config_maps(context.listed_namespace().await?);
    let request = Request::new("GET", &path).header("Accept", accept);
    let bytes = context.client.send(&request).await?.body.len();
    let mut row = context.load(name, 1, context.elapsed()).run(move |_| request.clone()).await?;
    row.numbers.push(("answer_mib", bytes as f64 / 1048576.0));
    Ok(vec![row])
}

/// One operation is the whole list, page after page.
pub(super) async fn list_chunks(context: &Context) -> Result<Vec<Row>, BenchError> {
    let path = format!("{}?limit={PAGE_OBJECTS}", config_maps(context.listed_namespace().await?));
    let shared = Arc::new((Sender::new(&context.client), path));
    let load = context.load("list-chunks", 1, context.elapsed());
    let row = load.run_ops(move |connection, _| {
        let shared = shared.clone();
        Box::pin(async move {
            let (sender, path) = &*shared;
            let mut page = path.clone();
            for _ in 0..PAGES_MAX {
                let body = sender.send(connection, &Request::new("GET", &page)).await?;
                let Some(token) = continue_token(&body) else { return Ok(()) };
                page = format!("{path}&continue={token}");
            }
            Err(BenchError::Unexpected(format!("more than {PAGES_MAX} pages")))
        })
    });
    Ok(vec![row.await?])
}

/// The token of the next page, percent-encoded. Searched, not parsed: the client should cost little.
fn continue_token(body: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\"continue\":\"";
    let start = body.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let token = body.get(start..)?.split(|b| *b == b'"').next()?;
    let encode = |b: &u8| match b {
        b if b.is_ascii_alphanumeric() || b"-_.~".contains(b) => char::from(*b).to_string(),
        b => format!("%{b:02X}"),
    };
    (!token.is_empty()).then(|| token.iter().map(encode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let cases = [
            (r#"{"metadata":{"continue":"ab-_="}}"#, Some("ab-_%3D")),
            (r#"{"metadata":{"continue":""}}"#, None),
            (r#"{"metadata":{}}"#, None),
        ];
        for (body, want) in cases {
            assert_eq!(continue_token(body.as_bytes()).as_deref(), want);
        }
    }
}
