//! A flow schema is in force as soon as the write of it is answered.

use pintle_testkit::{Client, Request, Server};
use serde_json::json;

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";

/// The uid of the flow schema that a request of the user matches.
async fn schema_of(client: &Client) -> String {
    let answer = client.send(&Request::new("GET", "/version")).await.unwrap();
    answer.head.get("x-kubernetes-pf-flowschema-uid").unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_written_flow_schema_takes_the_next_request() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let anonymous = admin.as_token(None);
    for round in 0..20 {
        let schema = json!({
            "metadata": {"name": "mine"},
            "spec": {
                "matchingPrecedence": 100,
                "priorityLevelConfiguration": {"name": "global-default"},
                "rules": [{
                    "subjects": [{"kind": "Group", "group": {"name": "system:unauthenticated"}}],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }],
            },
        });
        let before = schema_of(&anonymous).await;
        let (code, written) = admin.post(SCHEMAS, &schema).await.unwrap();
        assert_eq!(code, 201, "{written}");
        assert_eq!(schema_of(&anonymous).await, written["metadata"]["uid"], "round {round}");
        assert_eq!(admin.delete(&format!("{SCHEMAS}/mine")).await.unwrap().0, 200);
        assert_eq!(schema_of(&anonymous).await, before, "round {round}");
    }
}
