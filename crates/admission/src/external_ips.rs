//! DenyServiceExternalIPs: refuses new `externalIPs` of services.

use crate::{Plugin, Validation};
use pintle_meta::Status;
use pintle_value::Value;

pub(crate) struct DenyServiceExternalIps;

impl Plugin for DenyServiceExternalIps {
    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let ours = request.is("", "services") && request.subresource.is_empty();
        let Some(service) = object.filter(|_| ours) else { return Ok(()) };
        let addresses = |service: &Value| service.items_at(&["spec", "externalIPs"]).to_vec();
        let known = request.old.map(addresses).unwrap_or_default();
        if addresses(service).iter().all(|address| known.contains(address)) {
            return Ok(());
        }
        Err(request.forbidden(object, "Use of external IPs is denied by admission control"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, kind, tree, with_request};

    #[test]
    fn addresses_may_go_but_not_come() {
        let services = kind("", "services");
        let of = |list: &str| tree(&format!(r#"{{"spec":{{"externalIPs":{list}}}}}"#));
        for (old, new, is_taken) in [
            (None, "[]", true),
            (None, r#"["1.2.3.4"]"#, false),
            (Some(r#"["1.2.3.4","1.2.3.5"]"#), r#"["1.2.3.5"]"#, true),
            (Some(r#"["1.2.3.4"]"#), r#"["1.2.3.5"]"#, false),
        ] {
            let old = old.map(of);
            let answer = with_request(&services, old.as_ref(), |request| {
                DenyServiceExternalIps.validate(Validation {
                    request,
                    object: Some(&of(new)),
                    cluster: &Objects::of(&[]),
                    warnings: &mut Vec::new(),
                })
            });
            assert_eq!(answer.is_ok(), is_taken, "{old:?} {new}");
        }
    }
}
