//! FlowSchemas and PriorityLevelConfigurations of the API, parsed. Includes the mandatory ones, which exist even without
//! the API's objects.

use crate::queues::{QueueOptions, Queuing};
use crate::schema::{Distinguisher, NonResourceRule, ResourceRule, Rule, Subject};
use crate::shares::Shares;
use crate::{CATCH_ALL, EXEMPT};
use bytes::Bytes;
use pintle_value::Value;
use std::sync::Arc;

/// A PriorityLevelConfiguration.
#[derive(Clone, Debug)]
pub struct LevelObject {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Bytes,
    pub(crate) shares: Shares,
    pub(crate) queuing: Queuing,
}

/// A FlowSchema.
#[derive(Clone, Debug)]
pub struct SchemaObject {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Bytes,
    pub(crate) precedence: i64,
    pub(crate) level: Arc<str>,
    pub(crate) distinguisher: Distinguisher,
    pub(crate) rules: Vec<Rule>,
}

impl LevelObject {
    /// Reads an object of version v1. `None` if it is invalid; such a level is ignored.
    pub fn read(object: &Value) -> Option<Self> {
        let name = object.str_at(&["metadata", "name"]);
        let limited = object.at(&["spec", "limited"]).filter(|value| value.as_object().is_some());
        let exempt = object.at(&["spec", "exempt"]).filter(|value| value.as_object().is_some());
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_int);
        let positive = |value: Option<i64>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
        let (from, queuing) = match (object.str_at(&["spec", "type"]), limited, exempt) {
            ("Exempt", None, Some(exempt)) if name == EXEMPT => (exempt, Queuing::Exempt),
            ("Limited", Some(limited), None) if name != EXEMPT => (limited, read_queuing(limited)?),
            _ => return None,
        };
        Some(LevelObject {
            name: name.into(),
            uid: uid(object),
            shares: Shares {
                nominal: positive(number(from, "nominalConcurrencyShares")),
                lendable_percent: positive(number(from, "lendablePercent")).min(100),
                borrowing_percent: number(from, "borrowingLimitPercent")
                    .map(|percent| positive(Some(percent))),
            },
            queuing,
        })
    }

    /// The level `exempt`, if the API has none.
    pub(crate) fn exempt() -> Self {
        LevelObject {
            name: EXEMPT.into(),
            uid: Bytes::new(),
            shares: Shares::default(),
            queuing: Queuing::Exempt,
        }
    }

    /// The level `catch-all`, if the API has none.
    pub(crate) fn catch_all() -> Self {
        let shares = Shares { nominal: 5, ..Shares::default() };
        LevelObject { name: CATCH_ALL.into(), uid: Bytes::new(), shares, queuing: Queuing::Reject }
    }
}

fn read_queuing(limited: &Value) -> Option<Queuing> {
    let queuing = limited.at(&["limitResponse", "queuing"]).filter(|value| value.as_object().is_some());
    match (limited.str_at(&["limitResponse", "type"]), queuing) {
        ("Reject", None) => Some(Queuing::Reject),
        ("Queue", Some(queuing)) => {
            let number =
                |key: &str| queuing.get(key).and_then(Value::as_int).and_then(|n| usize::try_from(n).ok());
            Some(Queuing::Queue(QueueOptions {
                queues: number("queues").filter(|queues| *queues > 0)?,
                hand_size: number("handSize").filter(|size| *size > 0)?,
                queue_length_max: number("queueLengthLimit")?,
            }))
        }
        _ => None,
    }
}

impl SchemaObject {
    /// Reads an object of version v1.
    pub fn read(object: &Value) -> Self {
        let distinguisher = match object.str_at(&["spec", "distinguisherMethod", "type"]) {
            "ByUser" => Distinguisher::User,
            "ByNamespace" => Distinguisher::Namespace,
            _ => Distinguisher::None,
        };
        SchemaObject {
            name: object.str_at(&["metadata", "name"]).into(),
            uid: uid(object),
            precedence: object.at(&["spec", "matchingPrecedence"]).and_then(Value::as_int).unwrap_or(0),
            level: object.str_at(&["spec", "priorityLevelConfiguration", "name"]).into(),
            distinguisher,
            rules: object.items_at(&["spec", "rules"]).iter().map(read_rule).collect(),
        }
    }

    /// The schema `exempt`, if the API has none.
    pub(crate) fn exempt() -> Self {
        Self::mandatory_schema(EXEMPT, 1, Distinguisher::None, &["system:masters"])
    }

    /// The schema `catch-all`, if the API has none.
    pub(crate) fn catch_all() -> Self {
        let everybody = ["system:unauthenticated", "system:authenticated"];
        Self::mandatory_schema(CATCH_ALL, 10_000, Distinguisher::User, &everybody)
    }

    fn mandatory_schema(name: &str, precedence: i64, distinguisher: Distinguisher, groups: &[&str]) -> Self {
        let all = || vec!["*".into()];
        let rule = Rule {
            subjects: groups.iter().map(|group| Subject::Group((*group).into())).collect(),
            resources: vec![ResourceRule {
                verbs: all(),
                groups: all(),
                resources: all(),
                namespaces: all(),
                cluster_scope: true,
            }],
            non_resources: vec![NonResourceRule { verbs: all(), urls: all() }],
        };
        SchemaObject {
            name: name.into(),
            uid: Bytes::new(),
            precedence,
            level: name.into(),
            distinguisher,
            rules: vec![rule],
        }
    }
}

fn uid(object: &Value) -> Bytes {
    Bytes::copy_from_slice(object.str_at(&["metadata", "uid"]).as_bytes())
}

fn texts(value: &Value, key: &str) -> Vec<Box<str>> {
    value.items_at(&[key]).iter().filter_map(Value::as_str).map(Into::into).collect()
}

fn read_rule(rule: &Value) -> Rule {
    let resource = |rule: &Value| ResourceRule {
        verbs: texts(rule, "verbs"),
        groups: texts(rule, "apiGroups"),
        resources: texts(rule, "resources"),
        namespaces: texts(rule, "namespaces"),
        cluster_scope: rule.get("clusterScope").and_then(Value::as_bool).unwrap_or(false),
    };
    let non_resource =
        |rule: &Value| NonResourceRule { verbs: texts(rule, "verbs"), urls: texts(rule, "nonResourceURLs") };
    Rule {
        subjects: rule.items_at(&["subjects"]).iter().filter_map(read_subject).collect(),
        resources: rule.items_at(&["resourceRules"]).iter().map(resource).collect(),
        non_resources: rule.items_at(&["nonResourceRules"]).iter().map(non_resource).collect(),
    }
}

fn read_subject(subject: &Value) -> Option<Subject> {
    let text = |keys: &[&str]| subject.at(keys).and_then(Value::as_str).map(Into::into);
    match subject.str_at(&["kind"]) {
        "User" => text(&["user", "name"]).map(Subject::User),
        "Group" => text(&["group", "name"]).map(Subject::Group),
        "ServiceAccount" => Some(Subject::ServiceAccount {
            namespace: text(&["serviceAccount", "namespace"])?,
            name: text(&["serviceAccount", "name"])?,
        }),
        _ => None,
    }
}
