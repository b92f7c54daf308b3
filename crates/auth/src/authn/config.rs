//! `AuthenticationConfiguration`: the file of `--authentication-config`, and the `--oidc-*` flags in its terms.

use super::oidc;
use crate::config_file;
use pintle_meta::FieldErrors;
use pintle_meta::go_type::{GoStruct, GoType};
use pintle_value::{Path, Value};

/// Where kube-apiserver defines the scheme of the file, which is part of errors.
const SCHEME: &str = "pkg/kubeapiserver/options/authentication.go:879";
/// The maximum number of issuers.
const ISSUERS_MAX: usize = 64;

/// The JWT issuers, and anonymous access.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthenticationConfig {
    /// The issuers of tokens.
    pub jwt: Vec<JwtConfig>,
    /// Anonymous access; `None` leaves it to the flag.
    pub anonymous: Option<AnonymousConfig>,
}

/// Anonymous access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousConfig {
    /// Whether anonymous access is enabled.
    pub enabled: bool,
    /// The paths with anonymous access; empty means all.
    pub paths: Vec<String>,
}

/// One issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct JwtConfig {
    pub url: String,
    pub discovery_url: String,
    pub certificate_authority: String,
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    pub egress: String,
    pub username: ClaimSource,
    pub groups: ClaimSource,
    pub uid: ClaimSource,
    pub extra: Vec<(String, String)>,
    pub claim_rules: Vec<ClaimRule>,
    pub user_rules: Vec<UserRule>,
}

/// The source of a user attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct ClaimSource {
    pub claim: String,
    pub prefix: Option<String>,
    pub expression: String,
}

/// A rule that the claims of a token must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct ClaimRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

/// A rule that the user must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct UserRule {
    pub expression: String,
    pub message: String,
}

const TEXT: GoType = GoType::Text("string");
const SOURCE: GoStruct =
    GoStruct("PrefixedClaimOrExpression", &[("claim", TEXT), ("prefix", TEXT), ("expression", TEXT)]);
const ISSUER: GoStruct = GoStruct(
    "Issuer",
    &[
        ("url", TEXT),
        ("discoveryURL", TEXT),
        ("certificateAuthority", TEXT),
        ("audiences", GoType::Texts("string")),
        ("audienceMatchPolicy", GoType::Text("v1.AudienceMatchPolicyType")),
        ("egressSelectorType", GoType::Text("v1.EgressSelectorType")),
    ],
);
const CLAIM_RULE: GoStruct = GoStruct(
    "ClaimValidationRule",
    &[("claim", TEXT), ("requiredValue", TEXT), ("expression", TEXT), ("message", TEXT)],
);
const CLAIM_MAPPINGS: GoStruct = GoStruct(
    "ClaimMappings",
    &[
        ("username", GoType::Struct(&SOURCE)),
        ("groups", GoType::Struct(&SOURCE)),
        ("uid", GoType::Struct(&GoStruct("ClaimOrExpression", &[("claim", TEXT), ("expression", TEXT)]))),
        ("extra", GoType::Structs(&GoStruct("ExtraMapping", &[("key", TEXT), ("valueExpression", TEXT)]))),
    ],
);
const USER_RULE: GoStruct = GoStruct("UserValidationRule", &[("expression", TEXT), ("message", TEXT)]);
const JWT: GoStruct = GoStruct(
    "JWTAuthenticator",
    &[
        ("issuer", GoType::Struct(&ISSUER)),
        ("claimValidationRules", GoType::Structs(&CLAIM_RULE)),
        ("claimMappings", GoType::Struct(&CLAIM_MAPPINGS)),
        ("userValidationRules", GoType::Structs(&USER_RULE)),
    ],
);
const ANONYMOUS: GoStruct = GoStruct(
    "AnonymousAuthConfig",
    &[
        ("enabled", GoType::Bool),
        ("conditions", GoType::Structs(&GoStruct("AnonymousAuthCondition", &[("path", TEXT)]))),
    ],
);
const FILE: GoStruct = GoStruct(
    "AuthenticationConfiguration",
    &[("jwt", GoType::Structs(&JWT)), ("anonymous", GoType::Struct(&ANONYMOUS))],
);

impl AuthenticationConfig {
    /// Parses the text of a file. The error has kube-apiserver's text, without the file name.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let versions = ["v1", "v1beta1", "v1alpha1"];
        let tree = config_file::decode(text, &versions, &FILE, SCHEME)?;
        let anonymous = tree.get("anonymous").filter(|value| !value.is_null()).map(|value| AnonymousConfig {
            enabled: value.at(&["enabled"]).and_then(Value::as_bool).unwrap_or(false),
            paths: value
                .items_at(&["conditions"])
                .iter()
                .map(|condition| condition.str_at(&["path"]).to_string())
                .collect(),
        });
        Ok(AuthenticationConfig { jwt: tree.items_at(&["jwt"]).iter().map(read_issuer).collect(), anonymous })
    }

    /// Validates the configuration. `disallowed` are the issuers of service accounts.
    pub fn validate(&self, disallowed: &[String]) -> Result<(), String> {
        let mut errors = FieldErrors::new();
        let root = Path::of("jwt");
        if self.jwt.len() > ISSUERS_MAX {
            errors.too_many(&root, self.jwt.len(), ISSUERS_MAX);
        }
        for (index, jwt) in self.jwt.iter().enumerate().take(ISSUERS_MAX) {
            let path = root.index(index);
            oidc::validate(jwt, disallowed, &path, &mut errors);
            let earlier = self.jwt.iter().take(index);
            let path = path.field("issuer");
            if earlier.clone().any(|other| other.url == jwt.url) {
                errors.duplicate(&path.field("url"), jwt.url.as_str());
            }
            if !jwt.discovery_url.is_empty()
                && earlier.clone().any(|other| other.discovery_url == jwt.discovery_url)
            {
                errors.duplicate(&path.field("discoveryURL"), jwt.discovery_url.as_str());
            }
        }
        if let Some(anonymous) = self.anonymous.as_ref().filter(|a| !a.enabled && !a.paths.is_empty()) {
            oidc::invalid_conditions(&anonymous.paths, &Path::of("anonymous.conditions"), &mut errors);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(format!("invalid authentication configuration: {}", errors.aggregate_message()))
        }
    }
}

fn read_issuer(tree: &Value) -> JwtConfig {
    let text = |path: &[&str]| tree.str_at(path).to_string();
    let source = |name: &str| ClaimSource {
        claim: text(&["claimMappings", name, "claim"]),
        prefix: tree.at(&["claimMappings", name, "prefix"]).and_then(Value::as_str).map(str::to_string),
        expression: text(&["claimMappings", name, "expression"]),
    };
    let items = |path: &[&str]| tree.items_at(path).iter();
    JwtConfig {
        url: text(&["issuer", "url"]),
        discovery_url: text(&["issuer", "discoveryURL"]),
        certificate_authority: text(&["issuer", "certificateAuthority"]),
        audiences: items(&["issuer", "audiences"]).map(|a| a.as_str().unwrap_or("").to_string()).collect(),
        audience_match_policy: text(&["issuer", "audienceMatchPolicy"]),
        egress: text(&["issuer", "egressSelectorType"]),
        username: source("username"),
        groups: source("groups"),
        uid: source("uid"),
        extra: items(&["claimMappings", "extra"])
            .map(|e| (e.str_at(&["key"]).to_string(), e.str_at(&["valueExpression"]).to_string()))
            .collect(),
        claim_rules: items(&["claimValidationRules"])
            .map(|rule| ClaimRule {
                claim: rule.str_at(&["claim"]).to_string(),
                required_value: rule.str_at(&["requiredValue"]).to_string(),
                expression: rule.str_at(&["expression"]).to_string(),
                message: rule.str_at(&["message"]).to_string(),
            })
            .collect(),
        user_rules: items(&["userValidationRules"])
            .map(|rule| UserRule {
                expression: rule.str_at(&["expression"]).to_string(),
                message: rule.str_at(&["message"]).to_string(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let checked = AuthenticationConfig::parse(text.as_bytes())
            .and_then(|config| config.validate(&["https://own".to_string()]));
        checked.err().unwrap_or_default()
    }

    #[test]
    fn files_that_are_refused() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        let jwt = |issuer: &str, rest: &str| {
            format!(
                "{head}jwt: [{{issuer: {{{issuer}}}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}{rest}}}]"
            )
        };
        let good = "url: 'https://i', audiences: [a]";
        for (text, want) in [
            (String::new(), "empty config data"),
            (jwt(good, ""), ""),
            (jwt("audiences: [a]", ""), "jwt[0].issuer.url: Required value"),
            (
                jwt("url: 'https://own', audiences: [a]", ""),
                "URL must not overlap with disallowed issuers: [https://own]",
            ),
            (jwt(good, ", colour: red"), "strict decoding error: unknown field \"jwt[0].colour\""),
            (jwt(good, ", claimValidationRules: [{expression: '1'}]"), "must evaluate to bool"),
            (
                jwt(good, ", userValidationRules: [{expression: 'user.name'}]"),
                "compilation failed: ERROR: <input>:1:5: undefined field 'name'",
            ),
            (
                format!("{head}anonymous: {{enabled: false, conditions: [{{path: /a}}]}}"),
                "anonymous.conditions: Invalid value: [{\"Path\":\"/a\"}]: enabled should be set to true",
            ),
        ] {
            let why = refusal(&text);
            assert!(if want.is_empty() { why.is_empty() } else { why.contains(want) }, "{text}: {why}");
        }
    }
}
