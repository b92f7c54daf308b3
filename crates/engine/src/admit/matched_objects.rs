//! Converts the objects of a request to the version that a webhook or policy matched, and changed objects back.

use crate::decode::Refusal;
use crate::{Admission, Target, decode, propose};
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
    /// The object before the request, if there was one.
    pub(crate) old: Option<Value>,
    /// Whether a webhook or policy changed the new object in this version.
    pub(crate) is_changed: bool,
}

impl MatchedObjects {
    /// Replaces the new object with the one that a webhook or policy returned.
    pub(crate) fn change(&mut self, object: Value) {
        self.object = Some(object);
        self.is_changed = true;
    }
}

impl Admission {
    /// Converts the objects of a request to the version that matched.
    pub(crate) async fn convert_to_match(
        &self,
        request: &Attributes<'_>,
        target: &Target,
        object: Option<&Value>,
        matched: &Matched,
    ) -> Result<MatchedObjects, Status> {
        let version = version_of(request, matched);
        let object = match object {
            Some(object) => {
                Some(self.in_version(target, object, version, Empties::PreserveSerialized).await?)
            }
            None => None,
        };
        let old = match request.old {
            // A stored object has no empty lists and maps. Those of `old` are for comparisons.
            Some(old) => Some(self.in_version(target, old, version, Empties::Remove).await?),
            None => None,
        };
        Ok(MatchedObjects { version, object, old, is_changed: false })
    }

    /// Converts the objects to the version that the next webhook or policy matched, after storing earlier changes in
    /// `object`.
    pub(crate) async fn convert_to_next_match(
        &self,
        request: &Attributes<'_>,
        target: &Target,
        object: Option<&mut Value>,
        matched_objects: Option<MatchedObjects>,
        matched: &Matched,
    ) -> Result<MatchedObjects, Status> {
        match matched_objects {
            Some(matched_objects) if matched_objects.version == version_of(request, matched) => {
                Ok(matched_objects)
            }
            Some(matched_objects) => {
                let object = self.store_changes(target, object, &matched_objects).await?;
                self.convert_to_match(request, target, object.as_deref(), matched).await
            }
            None => self.convert_to_match(request, target, object.as_deref(), matched).await,
        }
    }

    /// Converts a changed object back to the version that the request works in and stores it in `object`.
    pub(crate) async fn store_changes<'o>(
        &self,
        target: &Target,
        object: Option<&'o mut Value>,
        matched_objects: &MatchedObjects,
    ) -> Result<Option<&'o mut Value>, Status> {
        let Some(object) = object else { return Ok(None) };
        if let Some(changed) = matched_objects.object.as_ref().filter(|_| matched_objects.is_changed) {
            *object = self.reader.convert(&target.kind, changed.clone(), target.working()).await?;
        }
        Ok(Some(object))
    }

    async fn in_version(
        &self,
        target: &Target,
        tree: &Value,
        to: usize,
        empties: Empties,
    ) -> Result<Value, Status> {
        let mut tree = self.reader.convert(&target.kind, tree.clone(), to).await?;
        if let Some(version) = target.kind.versions.get(to) {
            typed::normalize_with(&version.schema, &mut tree, empties);
        }
        Ok(tree)
    }

    /// Decodes a patched document in the matched version and applies defaults. Also returns whether it differs from the
    /// object before the patch.
    pub(crate) fn read_patched(
        &self,
        target: &Target,
        matched_objects: &MatchedObjects,
        document: Value,
    ) -> Result<(Value, bool), Status> {
        let object = self.read_document(target, matched_objects, document, Reading::Lenient)?;
        let differs = matched_objects.object.as_ref() != Some(&object);
        Ok((self.with_defaults(target, matched_objects, object), differs))
    }

    /// Decodes a document in the matched version.
    pub(crate) fn read_document(
        &self,
        target: &Target,
        matched_objects: &MatchedObjects,
        document: Value,
        reading: Reading,
    ) -> Result<Value, Status> {
        let target = Target { version: matched_objects.version, ..target.clone() };
        let kinds = self.storage.registry.kinds();
        let registered =
            |kind: &str, gv: &pintle_meta::GroupVersion| self.storage.is_built_in(&kinds, kind, gv);
        let expected = decode::expected_object(&target.kind, target.kind_version(), &registered);
        let schema = &target.kind_version().schema;
        let mut object = match decode::decode_plain(document.clone(), &expected) {
            Some(decoded) => decoded.value,
            None => self.read_other(&document, &expected, reading)?,
        };
        typed::normalize_with(schema, &mut object, Empties::PreserveSerialized);
        Ok(object)
    }

    /// Applies the defaults of the matched version to an object.
    pub(crate) fn with_defaults(
        &self,
        target: &Target,
        matched_objects: &MatchedObjects,
        mut object: Value,
    ) -> Value {
        let target = Target { version: matched_objects.version, ..target.clone() };
        propose::complete(&target, &mut object, Empties::PreserveSerialized);
        object
    }

    /// Decodes a patched document that failed to decode as the expected kind, to find the error to report.
    fn read_other(
        &self,
        document: &Value,
        expected: &decode::Expected<'_>,
        reading: Reading,
    ) -> Result<Value, Status> {
        let text = pintle_value::json::bytes(document);
        let refusal = match decode::decode_patched(&text, expected) {
            Ok((_, Some(refusal))) | Err(refusal) => refusal,
            Ok((decoded, None)) => {
                let complaints = decoded.complaints;
                if reading == Reading::Strict && expected.lenient && !complaints.is_empty() {
                    let why = format!("strict decoding error: {}", complaints.join(", "));
                    return Err(Status::internal(&why));
                }
                return Ok(decoded.value);
            }
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
        // kube-apiserver decodes a document of another kind as that kind first and only then refuses it.
        if expected.lenient
            && (kind != expected.kind)
            && !kind.is_empty()
            && let Some(schema) = self.storage.types.by_kind(api_version, kind)
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

/// How decoding treats fields that the type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// They are dropped.
    Lenient,
    /// They are refused.
    Strict,
}

/// The index of the matched version among the versions of the object's own kind. The kind of a subresource has only
/// one.
pub(super) fn version_of(request: &Attributes<'_>, matched: &Matched) -> usize {
    let is_own =
        request.kind.versions.get(matched.version).is_some_and(|v| v.gvk(request.kind) == matched.kind);
    if is_own { matched.version } else { 0 }
}
