//! Validates the issuers of an authentication configuration and compiles their expressions.

use super::mapping::{Expression, Mapping, Source};
use crate::authn::config::{ClaimSource, JwtConfig};
use pintle_cel::ast::ExprKind;
use pintle_cel::env::{Checked, Env};
use pintle_cel::types::Type;
use pintle_kinds::admission_expressions::user_shape;
use pintle_meta::FieldErrors;
use pintle_meta::field::Plain;
use pintle_value::Path;
use std::collections::BTreeSet;
use std::sync::OnceLock;

const CLAIM_AND_EXPRESSION: &str = "claim and expression can't both be set";

/// Appends the errors of an issuer. `disallowed` are the issuers of service accounts.
pub(in crate::authn) fn validate(
    config: &JwtConfig,
    disallowed: &[String],
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    validate_issuer(config, disallowed, &path.field("issuer"), errors);
    let mut uses_verified = validate_claim_rules(config, &path.field("claimValidationRules"), errors);
    let mappings = path.field("claimMappings");
    let username = mappings.field("username");
    let checked = validate_source(&config.username, true, &username, errors);
    let uses_email = checked.as_ref().is_some_and(|c| selects(c, "email"));
    uses_verified |= checked.as_ref().is_some_and(|c| selects(c, "email_verified"));
    validate_source(&config.groups, false, &mappings.field("groups"), errors);
    let uid = mappings.field("uid");
    match (config.uid.claim.is_empty(), config.uid.expression.is_empty()) {
        (false, false) => errors.invalid(&uid, "", CLAIM_AND_EXPRESSION),
        (true, false) => _ = check(&config.uid.expression, Input::Claims, &uid.field("expression"), errors),
        _ => {}
    }
    uses_verified |= validate_extra(config, &mappings, errors);
    if uses_email && !uses_verified {
        let why = "claims.email_verified must be used in claimMappings.username.expression or \
                   claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is \
                   used in claimMappings.username.expression";
        errors.invalid(&username.field("expression"), config.username.expression.as_str(), why);
    }
    let mut seen = BTreeSet::new();
    let rules = path.field("userValidationRules");
    for (index, rule) in config.user_rules.iter().enumerate() {
        let path = rules.index(index);
        let path = path.field("expression");
        if rule.expression.is_empty() {
            errors.required(&path, "");
        } else if seen.insert(&rule.expression) {
            _ = check(&rule.expression, Input::User, &path, errors);
        } else {
            errors.duplicate(&path, rule.expression.as_str());
        }
    }
}

fn validate_issuer(config: &JwtConfig, disallowed: &[String], path: &Path<'_>, errors: &mut FieldErrors) {
    match config.url.as_str() {
        "" => errors.required(&path.field("url"), ""),
        url => validate_url(url, disallowed, &path.field("url"), errors),
    }
    let discovery = config.discovery_url.as_str();
    if !discovery.is_empty() {
        let place = path.field("discoveryURL");
        if config.url.trim_end_matches('/') == discovery.trim_end_matches('/') {
            errors.invalid(&place, discovery, "discoveryURL must be different from URL");
        }
        validate_url(discovery, &[], &place, errors);
    }
    validate_audiences(config, path, errors);
    let authority = config.certificate_authority.as_str();
    if !authority.is_empty() && !has_certificate(authority) {
        let why = "data does not contain any valid RSA or ECDSA certificates";
        errors.invalid(&path.field("certificateAuthority"), "<omitted>", why);
    }
    if !matches!(config.egress.as_str(), "" | "controlplane" | "cluster") {
        let why = "egress selector must be either controlplane or cluster";
        errors.invalid(&path.field("egressSelectorType"), config.egress.as_str(), why);
    }
}

fn has_certificate(pem: &str) -> bool {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    CertificateDer::pem_slice_iter(pem.as_bytes()).any(|certificate| certificate.is_ok())
}

fn validate_url(url: &str, disallowed: &[String], path: &Path<'_>, errors: &mut FieldErrors) {
    if disallowed.iter().any(|issuer| issuer == url) {
        let mut all = disallowed.to_vec();
        all.sort();
        let why = format!("URL must not overlap with disallowed issuers: [{}]", all.join(" "));
        errors.invalid(path, url, &why);
    }
    if let Err(why) = pintle_cel::library::kubernetes::url::check(url) {
        return errors.invalid(path, url, &why);
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = rest.split('/').next().unwrap_or("");
    for (is_wrong, why) in [
        (scheme != "https", "URL scheme must be https"),
        (authority.contains('@'), "URL must not contain a username or password"),
        (!query.is_empty(), "URL must not contain a query"),
        (!fragment.is_empty(), "URL must not contain a fragment"),
    ] {
        if is_wrong {
            errors.invalid(path, url, why);
        }
    }
}

fn validate_audiences(config: &JwtConfig, path: &Path<'_>, errors: &mut FieldErrors) {
    let list = path.field("audiences");
    if config.audiences.is_empty() {
        return errors.required(&list, &format!("at least one {list} is required"));
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in config.audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.required(&list.index(index), "");
        }
        if !seen.insert(audience) {
            errors.duplicate(&list.index(index), audience.as_str());
        }
    }
    let policy = config.audience_match_policy.as_str();
    let place = path.field("audienceMatchPolicy");
    match (config.audiences.len(), policy) {
        (_, "MatchAny") | (1, "") => {}
        (1, _) => {
            errors.invalid(
                &place,
                policy,
                "audienceMatchPolicy must be empty or MatchAny for single audience",
            );
        }
        _ => errors.invalid(&place, policy, "audienceMatchPolicy must be MatchAny for multiple audiences"),
    }
}

/// Returns whether a rule checks `email_verified`.
fn validate_claim_rules(config: &JwtConfig, path: &Path<'_>, errors: &mut FieldErrors) -> bool {
    let (mut claims, mut expressions, mut uses_verified) = (BTreeSet::new(), BTreeSet::new(), false);
    for (index, rule) in config.claim_rules.iter().enumerate() {
        let path = path.index(index);
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (false, false) => errors.invalid(&path, rule.claim.as_str(), CLAIM_AND_EXPRESSION),
            (true, true) => errors.required(&path, "claim or expression is required"),
            (false, true) => {
                if !rule.message.is_empty() {
                    let why = "may not be specified when claim is set";
                    errors.invalid(&path.field("message"), rule.message.as_str(), why);
                }
                if !claims.insert(&rule.claim) {
                    errors.duplicate(&path.field("claim"), rule.claim.as_str());
                }
            }
            (true, false) => {
                if !rule.required_value.is_empty() {
                    let why = "may not be specified when expression is set";
                    errors.invalid(&path.field("requiredValue"), rule.required_value.as_str(), why);
                }
                let place = path.field("expression");
                if !expressions.insert(&rule.expression) {
                    errors.duplicate(&place, rule.expression.as_str());
                    continue;
                }
                let checked = check_rule(&rule.expression, &place, errors);
                uses_verified |= checked.is_some_and(|c| selects(&c, "email_verified"));
            }
        }
    }
    uses_verified
}

fn validate_source(
    source: &ClaimSource,
    required: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) -> Option<Checked> {
    match (source.claim.is_empty(), source.expression.is_empty()) {
        (false, false) => errors.invalid(path, "", CLAIM_AND_EXPRESSION),
        (true, true) if required => errors.required(path, "claim or expression is required"),
        (true, true) => {}
        (true, false) => {
            if let Some(prefix) = &source.prefix {
                let why = "may not be specified when expression is set";
                errors.invalid(&path.field("prefix"), prefix.as_str(), why);
            }
            return check(&source.expression, Input::Claims, &path.field("expression"), errors);
        }
        (false, true) => {
            if source.prefix.is_none() {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.required(&path.field("prefix"), why);
            }
        }
    }
    None
}

fn validate_extra(config: &JwtConfig, mappings: &Path<'_>, errors: &mut FieldErrors) -> bool {
    let list = mappings.field("extra");
    let (mut seen, mut uses_verified) = (BTreeSet::new(), false);
    for (index, (key, expression)) in config.extra.iter().enumerate() {
        let path = list.index(index);
        let place = path.field("key");
        let domain = key.split_once('/').map(|(domain, rest)| (domain, !rest.is_empty()));
        match domain {
            _ if key.is_empty() => errors.required(&place, ""),
            Some((domain, true)) if !domain.is_empty() => {
                for why in pintle_meta::names::dns_subdomain(domain, false) {
                    errors.invalid(&place, domain, &why);
                }
            }
            _ => {
                let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                errors.invalid(&place, key.as_str(), why);
            }
        }
        if *key != key.to_lowercase() {
            errors.invalid(&place, key.as_str(), "must be lowercase");
        }
        let domain = domain.map_or("", |(domain, _)| domain);
        let reserved = |of: &str| domain == of || domain.ends_with(&format!(".{of}"));
        if reserved("kubernetes.io") || reserved("k8s.io") {
            let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.invalid(&place, key.as_str(), why);
        }
        if !seen.insert(key) {
            errors.duplicate(&place, key.as_str());
            continue;
        }
        let place = path.field("valueExpression");
        if expression.is_empty() {
            errors.required(&place, "");
            continue;
        }
        let checked = check(expression, Input::Claims, &place, errors);
        uses_verified |= checked.is_some_and(|c| selects(&c, "email_verified"));
    }
    uses_verified
}

/// The expressions of a valid issuer, compiled.
pub(super) fn mapping(config: &JwtConfig) -> Result<Mapping, String> {
    let source = |source: &ClaimSource| -> Result<Source, String> {
        Ok(Source {
            claim: source.claim.clone(),
            prefix: source.prefix.clone().unwrap_or_default(),
            expression: match source.expression.as_str() {
                "" => None,
                text => Some(compile(text, "", Input::Claims)?),
            },
        })
    };
    let rules = config.claim_rules.iter();
    Ok(Mapping {
        username: source(&config.username)?,
        groups: source(&config.groups)?,
        uid: source(&config.uid)?,
        extra: config
            .extra
            .iter()
            .map(|(key, text)| compile(text, key, Input::Claims))
            .collect::<Result<_, _>>()?,
        required: rules
            .clone()
            .filter(|rule| !rule.claim.is_empty())
            .map(|rule| (rule.claim.clone(), rule.required_value.clone()))
            .collect(),
        claim_rules: rules
            .filter(|rule| !rule.expression.is_empty())
            .map(|rule| compile(&rule.expression, &rule.message, Input::Claims))
            .collect::<Result<_, _>>()?,
        user_rules: config
            .user_rules
            .iter()
            .map(|rule| compile(&rule.expression, &rule.message, Input::User))
            .collect::<Result<_, _>>()?,
    })
}

/// What an expression is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Claims,
    User,
}

fn compile(text: &str, label: &str, input: Input) -> Result<Expression, String> {
    let checked = expression_env(input).compile(text).map_err(|issues| issues.to_string())?;
    let program = checked.plan().map_err(|why| why.to_string())?;
    let is_native_list = matches!(&checked.ast.root.kind,
        ExprKind::Call { function, .. } if matches!(&**function, "split" | "findAll"));
    Ok(Expression { text: text.to_string(), program, label: label.to_string(), is_native_list })
}

/// Compiles an expression of any type, or a rule about the user.
fn check(text: &str, input: Input, path: &Path<'_>, errors: &mut FieldErrors) -> Option<Checked> {
    match expression_env(input).compile(text) {
        Ok(checked) if input == Input::User && *checked.output_type() != Type::Bool => {
            errors.invalid(path, text, "must evaluate to bool");
            None
        }
        Ok(checked) => Some(checked),
        Err(issues) => {
            errors.invalid(path, text, &format!("compilation failed: {issues}"));
            None
        }
    }
}

fn check_rule(text: &str, path: &Path<'_>, errors: &mut FieldErrors) -> Option<Checked> {
    let checked = check(text, Input::Claims, path, errors)?;
    if *checked.output_type() == Type::Bool {
        return Some(checked);
    }
    errors.invalid(path, text, "must evaluate to bool");
    None
}

/// Returns whether an expression uses `claims.NAME`.
fn selects(checked: &Checked, name: &str) -> bool {
    checked.selects_field("claims", name)
}

fn expression_env(input: Input) -> &'static Env {
    static CLAIMS: OnceLock<Env> = OnceLock::new();
    static USER: OnceLock<Env> = OnceLock::new();
    let base = || Env::kubernetes().with_options(|options| options.escaped_keys = true);
    match input {
        Input::Claims => {
            CLAIMS.get_or_init(|| base().with_variable("claims", Type::map(Type::String, Type::Any)))
        }
        Input::User => USER.get_or_init(|| base().with_shape("user", user_shape())),
    }
}

/// Reports conditions of disabled anonymous access. The error has the conditions with Go's field names, because their type has no
/// JSON names.
pub(in crate::authn) fn invalid_conditions(paths: &[String], path: &Path<'_>, errors: &mut FieldErrors) {
    let text: Vec<String> =
        paths.iter().map(|path| format!("{{\"Path\":{}}}", pintle_meta::field::quoted(path))).collect();
    let why = "enabled should be set to true when conditions are defined";
    errors.invalid(path, Plain(&format!("[{}]", text.join(","))), why);
}
