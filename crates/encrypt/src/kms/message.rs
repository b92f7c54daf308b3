//! The messages of KMS v2: the stored form of a value, and the calls of a plugin.

use super::{Sealed, Status};
use pintle_grpc::protobuf::{Field, Fields, put_bytes, put_number, text};
use pintle_meta::names;

/// `encryptedDEKSourceType`: the source is a seed.
pub(super) const SEED: u64 = 1;
/// The source is the key itself.
const KEY: u64 = 0;

const KEY_ID_BYTES_MAX: usize = 1024;
const SOURCE_BYTES_MAX: usize = 1024;
const ANNOTATIONS_BYTES_MAX: usize = 32 * 1024;

/// The stored form of a value.
pub(super) struct EncryptedObject {
    pub(super) data: Vec<u8>,
    pub(super) sealed: Sealed,
    pub(super) source_type: u64,
}

pub(super) fn encode(object: &EncryptedObject, out: &mut Vec<u8>) {
    put_bytes(1, &object.data, out);
    put_bytes(2, object.sealed.key_id.as_bytes(), out);
    put_bytes(3, &object.sealed.ciphertext, out);
    put_annotations(4, &object.sealed.annotations, out);
    put_number(5, object.source_type, out);
}

/// Decodes and checks the stored form of a value.
pub(super) fn decode(bytes: &[u8]) -> Result<EncryptedObject, String> {
    let mut object = EncryptedObject { data: Vec::new(), sealed: Sealed::default(), source_type: 0 };
    for field in Fields(bytes) {
        match field? {
            (1, Field::Bytes(bytes)) => object.data = bytes.to_vec(),
            (2, Field::Bytes(bytes)) => object.sealed.key_id = text(bytes),
            (3, Field::Bytes(bytes)) => object.sealed.ciphertext = bytes.to_vec(),
            (4, Field::Bytes(bytes)) => object.sealed.annotations.push(parse_annotation(bytes)?),
            (5, Field::Number(number)) => object.source_type = number,
            _ => {}
        }
    }
    if !matches!(object.source_type, KEY | SEED) {
        return Err(format!("unknown encryptedDEKSourceType: {}", object.source_type));
    }
    if object.data.is_empty() {
        return Err("encrypted data is empty".to_string());
    }
    validate(&object.sealed)?;
    Ok(object)
}

/// Checks the result of a plugin's encryption, with kube-apiserver's messages.
pub(super) fn validate(sealed: &Sealed) -> Result<(), String> {
    let bytes = sealed.ciphertext.len();
    if bytes == 0 {
        return Err("failed to validate encrypted DEK source: encrypted DEK source is empty".to_string());
    }
    if bytes > SOURCE_BYTES_MAX {
        return Err(format!(
            "failed to validate encrypted DEK source: encrypted DEK source is {bytes} bytes, which exceeds the max size \
             of {SOURCE_BYTES_MAX}"
        ));
    }
    validate_key_id(&sealed.key_id).map_err(|why| format!("failed to validate key id: {why}"))?;
    let bytes: usize =
        sealed.annotations.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        return Err(format!(
            "failed to validate annotations: total size of annotations is {bytes}, which exceeds the max size of \
             {ANNOTATIONS_BYTES_MAX}"
        ));
    }
    let named = |name: &str| name.contains('.') && names::is_dns1123_subdomain(name).is_empty();
    match sealed.annotations.iter().find(|(name, _)| !named(name)) {
        None => Ok(()),
        Some(_) => Err("failed to validate annotations: a key is no fully qualified domain name".to_string()),
    }
}

pub(super) fn validate_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_string()),
        bytes if bytes > KEY_ID_BYTES_MAX => {
            Err(format!("keyID is {bytes} bytes, which exceeds the max size of {KEY_ID_BYTES_MAX}"))
        }
        _ => Ok(()),
    }
}

pub(super) fn encrypt_request(plain: &[u8], uid: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(1, plain, &mut out);
    put_bytes(2, uid.as_bytes(), &mut out);
    out
}

pub(super) fn encrypt_response(bytes: &[u8]) -> Result<Sealed, String> {
    let mut sealed = Sealed::default();
    for field in Fields(bytes) {
        match field? {
            (1, Field::Bytes(bytes)) => sealed.ciphertext = bytes.to_vec(),
            (2, Field::Bytes(bytes)) => sealed.key_id = text(bytes),
            (3, Field::Bytes(bytes)) => sealed.annotations.push(parse_annotation(bytes)?),
            _ => {}
        }
    }
    Ok(sealed)
}

pub(super) fn decrypt_request(sealed: &Sealed, uid: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(1, &sealed.ciphertext, &mut out);
    put_bytes(2, uid.as_bytes(), &mut out);
    put_bytes(3, sealed.key_id.as_bytes(), &mut out);
    put_annotations(4, &sealed.annotations, &mut out);
    out
}

pub(super) fn decrypt_response(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    for field in Fields(bytes) {
        if let (1, Field::Bytes(bytes)) = field? {
            plain = bytes.to_vec();
        }
    }
    Ok(plain)
}

/// A request of KMS v1.
pub(super) fn v1_request(version: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(1, version.as_bytes(), &mut out);
    if !bytes.is_empty() {
        put_bytes(2, bytes, &mut out);
    }
    out
}

pub(super) fn status_response(bytes: &[u8]) -> Result<Status, String> {
    let mut status = Status::default();
    for field in Fields(bytes) {
        match field? {
            (1, Field::Bytes(bytes)) => status.version = text(bytes),
            (2, Field::Bytes(bytes)) => status.healthz = text(bytes),
            (3, Field::Bytes(bytes)) => status.key_id = text(bytes),
            _ => {}
        }
    }
    Ok(status)
}

fn parse_annotation(bytes: &[u8]) -> Result<(String, Vec<u8>), String> {
    let mut entry = (String::new(), Vec::new());
    for field in Fields(bytes) {
        match field? {
            (1, Field::Bytes(bytes)) => entry.0 = text(bytes),
            (2, Field::Bytes(bytes)) => entry.1 = bytes.to_vec(),
            _ => {}
        }
    }
    Ok(entry)
}

fn put_annotations(number: u64, annotations: &[(String, Vec<u8>)], out: &mut Vec<u8>) {
    for (name, value) in annotations {
        let mut entry = Vec::new();
        put_bytes(1, name.as_bytes(), &mut entry);
        put_bytes(2, value, &mut entry);
        put_bytes(number, &entry, out);
    }
}
