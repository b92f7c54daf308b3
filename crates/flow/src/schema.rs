//! Which requests a flow schema matches.

use crate::Digest;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The attribute that distinguishes the flows of one schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distinguisher {
    None,
    User,
    Namespace,
}

impl Distinguisher {
    pub(crate) fn of<'a>(self, request: &Digest<'a>) -> &'a str {
        match self {
            Distinguisher::None => "",
            Distinguisher::User => request.user,
            Distinguisher::Namespace => request.namespace,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    User(Box<str>),
    Group(Box<str>),
    ServiceAccount { namespace: Box<str>, name: Box<str> },
}

#[derive(Clone, Debug)]
pub(crate) struct ResourceRule {
    pub(crate) verbs: Vec<Box<str>>,
    pub(crate) groups: Vec<Box<str>>,
    pub(crate) resources: Vec<Box<str>>,
    pub(crate) namespaces: Vec<Box<str>>,
    pub(crate) cluster_scope: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct NonResourceRule {
    pub(crate) verbs: Vec<Box<str>>,
    pub(crate) urls: Vec<Box<str>>,
}

/// Subjects, and the requests that they make.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) resources: Vec<ResourceRule>,
    pub(crate) non_resources: Vec<NonResourceRule>,
}

impl Rule {
    pub(crate) fn matches(&self, request: &Digest<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.matches(request))
            && if request.resource_request {
                self.resources.iter().any(|rule| rule.matches(request))
            } else {
                self.non_resources.iter().any(|rule| rule.matches(request))
            }
    }
}

impl Subject {
    fn matches(&self, request: &Digest<'_>) -> bool {
        match self {
            Subject::User(name) => **name == *"*" || **name == *request.user,
            Subject::Group(name) => **name == *"*" || request.groups.iter().any(|group| **group == **name),
            Subject::ServiceAccount { namespace, name } => {
                let account = request.user.strip_prefix(SERVICE_ACCOUNT);
                let account = account.and_then(|rest| rest.strip_prefix(&**namespace)?.strip_prefix(':'));
                account.is_some_and(|account| **name == *"*" || account == &**name)
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, request: &Digest<'_>) -> bool {
        contains(&self.verbs, request.verb)
            && self.matches_resource(request)
            && contains(&self.groups, request.group)
            && match request.namespace {
                "" => self.cluster_scope,
                namespace => contains(&self.namespaces, namespace),
            }
    }

    /// `pods` or `pods/log`: a rule for a resource does not cover its subresources.
    fn matches_resource(&self, request: &Digest<'_>) -> bool {
        if request.subresource.is_empty() {
            return contains(&self.resources, request.resource);
        }
        let is_it = |text: &str| {
            let rest = text.strip_prefix(request.resource).and_then(|rest| rest.strip_prefix('/'));
            rest == Some(request.subresource)
        };
        is_all(&self.resources) || self.resources.iter().any(|text| is_it(text))
    }
}

impl NonResourceRule {
    fn matches(&self, request: &Digest<'_>) -> bool {
        contains(&self.verbs, request.verb) && self.urls.iter().any(|url| covers(url, request.path))
    }
}

/// Whether a URL of a rule covers a path: itself and, with or without `/*`, everything below it.
fn covers(url: &str, path: &str) -> bool {
    if url == "*" || url == path {
        return true;
    }
    let prefix = url.strip_suffix('*').unwrap_or(url);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

/// `*` counts only where it is alone.
fn is_all(list: &[Box<str>]) -> bool {
    matches!(list, [one] if **one == *"*")
}

fn contains(list: &[Box<str>], text: &str) -> bool {
    is_all(list) || list.iter().any(|one| **one == *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(user: &'a str, groups: &'a [String]) -> Digest<'a> {
        Digest {
            user,
            groups,
            verb: "get",
            resource_request: true,
            path: "/api/v1/namespaces/default/pods/x",
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "default",
        }
    }

    #[test]
    fn subjects() {
        let account = |namespace: &str, name: &str| Subject::ServiceAccount {
            namespace: namespace.into(),
            name: name.into(),
        };
        let groups = ["dev".to_string()];
        for (subject, user, want) in [
            (Subject::User("alice".into()), "alice", true),
            (Subject::User("*".into()), "bob", true),
            (Subject::User("alice".into()), "bob", false),
            (Subject::Group("dev".into()), "bob", true),
            (Subject::Group("ops".into()), "bob", false),
            (Subject::Group("*".into()), "bob", true),
            (account("a", "*"), "system:serviceaccount:a:x", true),
            (account("a", "x"), "system:serviceaccount:a:x", true),
            (account("a", "y"), "system:serviceaccount:a:x", false),
            (account("a", "*"), "system:serviceaccount:ab:x", false),
            (account("a", "*"), "a:x", false),
        ] {
            assert_eq!(subject.matches(&request(user, &groups)), want, "{subject:?} {user}");
        }
    }

    #[test]
    fn resources_namespaces_and_scope() {
        let list = |texts: &[&str]| texts.iter().map(|text| Box::from(*text)).collect::<Vec<Box<str>>>();
        let rule = |resources: &[&str], namespaces: &[&str], cluster_scope| ResourceRule {
            verbs: list(&["get"]),
            groups: list(&[""]),
            resources: list(resources),
            namespaces: list(namespaces),
            cluster_scope,
        };
        let base = request("alice", &[]);
        let log = Digest { subresource: "log", ..base };
        let cluster = Digest { namespace: "", ..base };
        for (rule, request, want) in [
            (rule(&["pods"], &["*"], false), base, true),
            (rule(&["pods"], &["*"], false), log, false),
            (rule(&["pods/log"], &["*"], false), log, true),
            (rule(&["pods/status"], &["*"], false), log, false),
            (rule(&["*"], &["*"], false), log, true),
            (rule(&["pods"], &["other"], true), base, false),
            (rule(&["pods"], &["*"], false), cluster, false),
            (rule(&["pods"], &[], true), cluster, true),
            (rule(&["pods"], &["*"], true), Digest { verb: "list", ..base }, false),
        ] {
            assert_eq!(rule.matches(&request), want, "{rule:?} {request:?}");
        }
    }

    #[test]
    fn urls() {
        for (url, path, want) in [
            ("*", "/x", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", true),
            ("/healthz", "/healthzz", false),
            ("/apis/*", "/apis/apps", true),
            ("/apis/*", "/apis", false),
            ("/apis/*", "/apis/", true),
            ("/a/b*", "/a/bc", false),
            ("/", "/x", true),
        ] {
            assert_eq!(covers(url, path), want, "{url} {path}");
        }
    }
}
