//! `authorizer` in expressions: checks the rights of the request's user.

use crate::Attributes;
use pintle_auth::{Authorizer, UserInfo, authz};
use pintle_cel::library::kubernetes::authorizer::{self as library, Decision, Question, Subject, Target};
use pintle_cel::value::Value as CelValue;
use pintle_meta::selector::{FieldSelector, LabelSelector};
use std::fmt;
use std::sync::Arc;

/// The `authorizer` of expressions about one request.
pub struct RequestAuthorizer {
    questions: Arc<Questions>,
    resource: library::Resource,
}

impl RequestAuthorizer {
    /// Creates the `authorizer` for the user of `request`.
    pub fn new(authorizer: &Arc<dyn Authorizer>, request: &Attributes<'_>) -> Self {
        let questions = Questions { authorizer: authorizer.clone(), user: Arc::new(request.user.clone()) };
        let resource = library::Resource {
            group: request.version.group.to_string(),
            resource: request.kind.plural.to_string(),
            subresource: request.subresource.to_string(),
            namespace: request.namespace.to_string(),
            name: request.name.to_string(),
            ..library::Resource::default()
        };
        RequestAuthorizer { questions: Arc::new(questions), resource }
    }

    pub(super) fn authorizer(&self) -> CelValue<'static> {
        library::authorizer(self.questions.clone())
    }

    pub(super) fn request_resource(&self) -> CelValue<'static> {
        library::request_resource(self.questions.clone(), self.resource.clone())
    }
}

struct Questions {
    authorizer: Arc<dyn Authorizer>,
    user: Arc<UserInfo>,
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl library::Authorizer for Questions {
    fn authorize(&self, question: &Question<'_>) -> Decision {
        let user = match question.subject {
            Subject::Requester => Arc::clone(&self.user),
            Subject::ServiceAccount { namespace, name } => {
                Arc::new(UserInfo::service_account(namespace, name))
            }
        };
        let mut asked =
            authz::Attributes { user, verb: question.verb.to_string(), ..authz::Attributes::default() };
        match question.target {
            Target::Path(path) => asked.path = path.to_string(),
            Target::Resource(resource) => {
                asked.resource_request = true;
                asked.version = "*".into();
                asked.group.clone_from(&resource.group);
                asked.resource.clone_from(&resource.resource);
                asked.subresource.clone_from(&resource.subresource);
                asked.namespace.clone_from(&resource.namespace);
                asked.name.clone_from(&resource.name);
                asked.field_selector = FieldSelector::parse(&resource.field_selector).unwrap_or_default();
                let labels = LabelSelector::parse(&resource.label_selector).unwrap_or_default();
                asked.label_selector = labels.requirements().to_vec();
            }
        }
        let decision = self.authorizer.authorize(&asked).wait();
        Decision {
            allowed: decision.is_allowed(),
            reason: decision.reason().to_string(),
            error: decision.error().map(Into::into),
        }
    }
}
