//! Options of lists and watches.

use super::{Query, check_options};
use crate::field::Named;
use crate::{FieldErrors, FieldSelector, LabelSelector, Status};
use pintle_value::{Path, Str};

/// How the version of a list relates to the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// Exactly that version.
    Exact,
    /// That version or a newer one.
    NotOlderThan,
}

/// Options of a list, a watch or a deletion of a collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOptions {
    /// The label selector.
    pub label_selector: LabelSelector,
    /// The field selector, not yet checked against the kind.
    pub field_selector: FieldSelector,
    /// The shard selector, not yet parsed: it only counts with the feature gate ShardedListAndWatch.
    pub shard_selector: Str,
    /// Whether this is a watch instead of a list.
    pub watch: bool,
    /// Whether a watch sends bookmarks.
    pub allow_watch_bookmarks: bool,
    /// The requested version; "" is the newest, "0" any.
    pub resource_version: Str,
    /// How the requested version is matched.
    pub resource_version_match: Option<VersionMatch>,
    /// How long the request may take.
    pub timeout_seconds: Option<i64>,
    /// How many objects at most; none or a negative number is all.
    pub limit: i64,
    /// The token at which the list continues.
    pub continue_token: String,
    /// Whether a watch begins with the existing objects.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads the options from the query, applies defaults and checks them. `watch_list` is the feature gate WatchList.
    pub fn from_query(query: Query<'_>, watch_list: bool) -> Result<Self, Status> {
        let mut options = Self::decode(query)?;
        let mut matching = query.text("resourceVersionMatch");
        let legacy = matches!(options.resource_version.as_str(), "" | "0");
        if watch_list
            && options.watch
            && legacy
            && options.send_initial_events.is_none()
            && matching.is_empty()
        {
            options.send_initial_events = Some(true);
            matching = "NotOlderThan";
        }
        options.resource_version_match = match matching {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        let mut errors = FieldErrors::new();
        if options.watch {
            options.check_watch(matching, watch_list, &mut errors);
        } else {
            options.check_list(matching, &mut errors);
        }
        check_options("ListOptions", options, errors)
    }

    /// Reads the options without checking whether they fit together, and without `resourceVersionMatch`.
    pub fn decode(query: Query<'_>) -> Result<Self, Status> {
        Ok(ListOptions {
            timeout_seconds: query.int("timeoutSeconds")?,
            limit: query.int("limit")?.unwrap_or(0),
            label_selector: LabelSelector::parse(query.text("labelSelector")).map_err(Status::bad_request)?,
            field_selector: FieldSelector::parse(query.text("fieldSelector")).map_err(Status::bad_request)?,
            shard_selector: query.text("shardSelector").into(),
            watch: query.switch("watch").unwrap_or(false),
            allow_watch_bookmarks: query.switch("allowWatchBookmarks").unwrap_or(false),
            resource_version: query.text("resourceVersion").into(),
            resource_version_match: None,
            continue_token: query.text("continue").into(),
            send_initial_events: query.switch("sendInitialEvents"),
        })
    }

    fn check_list(&self, matching: &str, errors: &mut FieldErrors) {
        let path = Path::of("resourceVersionMatch");
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                errors
                    .forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
            if self.resource_version_match.is_none() {
                errors.not_supported(&path, Named(matching), &["Exact", "NotOlderThan", ""]);
            }
            if matching == "Exact" && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.forbidden(&path, detail);
            }
        }
        if self.send_initial_events.is_some() {
            errors.forbidden(&Path::of("sendInitialEvents"), "sendInitialEvents is forbidden for list");
        }
    }

    fn check_watch(&self, matching: &str, watch_list: bool, errors: &mut FieldErrors) {
        let path = Path::of("resourceVersionMatch");
        if self.send_initial_events.is_some() {
            if matching != "NotOlderThan" {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.forbidden(&path, detail);
            }
            if !watch_list {
                let detail =
                    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                errors.forbidden(&Path::of("sendInitialEvents"), detail);
            }
        }
        if matching.is_empty() {
            return;
        }
        if self.send_initial_events.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.forbidden(&path, detail);
        }
        if matching != "NotOlderThan" {
            errors.not_supported(&path, Named(matching), &["NotOlderThan"]);
        }
        if !self.continue_token.is_empty() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
    }

    /// Restricts the options to one object, as a watch of a name does.
    pub fn narrow_to_name(&mut self, name: &str) -> Result<(), Status> {
        if self.field_selector.is_empty() {
            self.field_selector = FieldSelector::equal("metadata.name", name);
        } else if self.field_selector.required_value("metadata.name") != Some(name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::pairs;

    #[test]
    fn lists_and_watches() {
        let invalid = |errors: &str| format!(r#"422 ListOptions.meta.k8s.io "" is invalid: {errors}"#);
        for (query, expected) in [
            ("", "fine".to_string()),
            ("limit=5&limit=x&timeoutSeconds=-1&resourceVersion=x&resourceVersionMatch=Exact", "fine".into()),
            ("limit=soon", "400 strconv.ParseInt: parsing \"soon\": invalid syntax".into()),
            ("labelSelector=,", "400 found ',', expected: !, identifier, or 'end of string'".into()),
            ("fieldSelector=a", "400 invalid selector: 'a'; can't understand 'a'".into()),
            (
                "resourceVersionMatch=Nope&continue=x",
                invalid(
                    r#"[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided, resourceVersionMatch: Unsupported value: "Nope": supported values: "Exact", "NotOlderThan", ""]"#,
                ),
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                invalid(
                    r#"resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#,
                ),
            ),
            (
                "sendInitialEvents=false",
                invalid("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
            ),
            (
                "watch=1&resourceVersionMatch=Exact",
                invalid(
                    r#"[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]"#,
                ),
            ),
            (
                "watch&sendInitialEvents&resourceVersion=5",
                invalid(
                    "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
            ),
        ] {
            let got = ListOptions::from_query(Query(&pairs(query)), true);
            let got = got.map_or_else(|s| format!("{} {}", s.code, s.message), |_| "fine".to_string());
            assert_eq!(got, expected, "{query}");
        }
    }

    #[test]
    fn a_watch_from_anywhere_begins_with_what_is_there() {
        for (query, watch_list, expected) in [
            ("watch=1", true, Some(true)),
            ("watch=1", false, None),
            ("watch=1&resourceVersion=7", true, None),
        ] {
            let options = ListOptions::from_query(Query(&pairs(query)), watch_list).unwrap();
            assert_eq!(options.send_initial_events, expected, "{query}");
        }
    }
}
