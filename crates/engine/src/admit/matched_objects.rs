//! The objects of a request in the version that a webhook or policy matched, and back in the version of the request.

use crate::decode::Refusal;
use crate::{Engine, Target, decode, propose};
use pintle_admission::Attributes;
use pintle_admission::matching::Matched;
use pintle_meta::Status;
use pintle_schema::typed::{self, Empties};
use pintle_value::Value;

/// The objects of a request in one version.
pub(crate) struct MatchedObjects {
    version: usize,
    /// The new object, if there is one.
    pub(crate) object: Option<Value>,
    /// The object as it was, if there was one.
    pub(crate) old: Option<Value>,
    /// Whether the new object was changed in this version.
    pub(crate) is_changed: bool,
}

impl MatchedObjects {
    /// Replaces the object by one that a webhook or policy changed.
    pub(crate) fn change(&mut self, object: Value) {
        self.object = Some(object);
        self.is_changed = true;
    }
}

impl Engine {
    /// The objects of a request as they look where it matched.
    pub(crate) async fn show(
        &self,
        request: &Attributes<'_>,
        target: &Target,
        object: Option<&Value>,
        matched: &Matched,
    ) -> Result<MatchedObjects, Status> {
        let version = version_of(request, matched);
        let object = match object {
            Some(object) => Some(self.in_version(target, object, version).await?),
            None => None,
        };
        let old = match request.old {
            Some(old) => Some(self.in_version(target, old, version).await?),
            None => None,
        };
        Ok(MatchedObjects { version, object, old, is_changed: false })
    }

    /// The same objects where another one matched; what was changed before is kept in `object`.
    pub(crate) async fn show_again(
        &self,
        request: &Attributes<'_>,
        target: &Target,
        object: Option<&mut Value>,
        shown: Option<MatchedObjects>,
        matched: &Matched,
    ) -> Result<MatchedObjects, Status> {
        match shown {
            Some(shown) if shown.version == version_of(request, matched) => Ok(shown),
            Some(shown) => {
                let object = self.keep(target, object, &shown).await?;
                self.show(request, target, object.as_deref(), matched).await
            }
            None => self.show(request, target, object.as_deref(), matched).await,
        }
    }

    /// Takes a change of the object over, back in the version that requests work in.
    pub(crate) async fn keep<'o>(
        &self,
        target: &Target,
        object: Option<&'o mut Value>,
        shown: &MatchedObjects,
    ) -> Result<Option<&'o mut Value>, Status> {
        let Some(object) = object else { return Ok(None) };
        if let Some(changed) = shown.object.as_ref().filter(|_| shown.is_changed) {
            *object = self.convert(&target.kind, changed.clone(), target.working()).await?;
        }
        Ok(Some(object))
    }

    async fn in_version(&self, target: &Target, tree: &Value, to: usize) -> Result<Value, Status> {
        let mut tree = self.convert(&target.kind, tree.clone(), to).await?;
        if let Some(version) = target.kind.versions.get(to) {
            typed::normalize_with(&version.schema, &mut tree, Empties::PreserveSerialized);
        }
        Ok(tree)
    }

    /// What a patched document is in the version that was shown, with its defaults; and whether it differs from what
    /// was shown.
    pub(crate) fn read_patched(
        &self,
        target: &Target,
        shown: &MatchedObjects,
        document: Value,
    ) -> Result<(Value, bool), Status> {
        let object = self.read_document(target, shown, document, Reading::Lenient)?;
        let differs = shown.object.as_ref() != Some(&object);
        Ok((self.with_defaults(target, shown, object), differs))
    }

    /// What a document is in the version that was shown.
    pub(crate) fn read_document(
        &self,
        target: &Target,
        shown: &MatchedObjects,
        document: Value,
        reading: Reading,
    ) -> Result<Value, Status> {
        let target = Target { version: shown.version, ..target.clone() };
        let kinds = self.registry.kinds();
        let registered = |kind: &str, gv: &pintle_meta::GroupVersion| self.is_built_in(&kinds, kind, gv);
        let expected = decode::expected_object(&target.kind, target.kind_version(), &registered);
        let schema = &target.kind_version().schema;
        let mut object = match decode::decode_plain(document.clone(), &expected) {
            Some(decoded) => decoded.value,
            None => self.read_other(&document, &expected, reading)?,
        };
        typed::normalize_with(schema, &mut object, Empties::PreserveSerialized);
        Ok(object)
    }

    /// An object in the version that was shown, with its defaults.
    pub(crate) fn with_defaults(&self, target: &Target, shown: &MatchedObjects, mut object: Value) -> Value {
        let target = Target { version: shown.version, ..target.clone() };
        propose::complete(&target, &mut object, Empties::PreserveSerialized);
        object
    }

    /// Reads a patched document that does not read as it should, to find what is wrong with it.
    fn read_other(
        &self,
        document: &Value,
        expected: &decode::Expected<'_>,
        reading: Reading,
    ) -> Result<Value, Status> {
        let mut text = Vec::new();
        pintle_value::json::print(document, &mut text);
        let refusal = match decode::decode_patched(&text, expected) {
            Ok(decoded) => {
                let complaints = decoded.complaints;
                if reading == Reading::Strict && expected.lenient && !complaints.is_empty() {
                    let why = format!("strict decoding error: {}", complaints.join(", "));
                    return Err(Status::internal(&why));
                }
                return Ok(decoded.value);
            }
            Err(refusal) => refusal,
        };
        if let Some(status) =
            refusal.of_patched(expected, &text).filter(|_| matches!(refusal, Refusal::OtherKind(_)))
        {
            return Err(status);
        }
        let (api_version, kind) = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
        if !expected.lenient && kind == expected.kind && matches!(refusal, Refusal::OtherVersion { .. }) {
            let why = format!("request to convert CR from an invalid group/version: {api_version}");
            return Err(Status::unclassified(why));
        }
        // A document of another kind is read as one of that kind before it turns out that it does not belong here.
        if expected.lenient
            && (kind != expected.kind)
            && !kind.is_empty()
            && let Some(schema) = self.types.by_kind(api_version, kind)
        {
            let read = pintle_schema::decode(&schema, document.clone(), &mut typed::Strict::default());
            return Err(match read {
                Err(error) => Status::internal(error.message()),
                Ok(_) => Status::unclassified(refusal.why()),
            });
        }
        Err(Status::internal(refusal.why()))
    }
}

/// What becomes of fields that a type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// They are dropped.
    Lenient,
    /// They are refused.
    Strict,
}

/// Where the version that matched is among those of the object's own kind: a subresource's kind has but one.
pub(super) fn version_of(request: &Attributes<'_>, matched: &Matched) -> usize {
    let is_own =
        request.kind.versions.get(matched.version).is_some_and(|v| v.gvk(request.kind) == matched.kind);
    if is_own { matched.version } else { 0 }
}
