//! AES-GCM, which authenticates the key that a value is stored under, and AES-CBC, which authenticates nothing.

use crate::provider::TransformError;
use crate::random;
use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

/// Bytes of a block, and of the initialization vector.
const BLOCK: usize = 16;

const TOO_SHORT: &str = "the stored data was shorter than the required size";

/// AES-GCM with random nonces: nonce, ciphertext, tag.
pub(crate) struct Gcm(LessSafeKey);

impl Gcm {
    /// A key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Gcm, TransformError> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            32 => &AES_256_GCM,
            other => return Err(TransformError(format!("crypto/aes: invalid key size {other}"))),
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| TransformError::new("invalid AES key"))?;
        Ok(Gcm(LessSafeKey::new(key)))
    }

    pub(crate) fn seal(&self, key: &str, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        out.extend_from_slice(&nonce);
        let start = out.len();
        out.extend_from_slice(plain);
        let body = out.get_mut(start..).unwrap_or_default();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(key.as_bytes()), body);
        let tag = tag.map_err(|_| TransformError::new("cipher: message encryption failed"))?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    pub(crate) fn open(&self, key: &str, data: &[u8]) -> Result<Vec<u8>, TransformError> {
        let Some((nonce, body)) = data.split_first_chunk::<NONCE_LEN>() else {
            return Err(TransformError::new(TOO_SHORT));
        };
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(key.as_bytes()), &mut body);
        let length = opened.map_err(|_| TransformError::new("cipher: message authentication failed"))?.len();
        body.truncate(length);
        Ok(body)
    }
}

/// AES-CBC with PKCS#7 padding: initialization vector, ciphertext.
pub(crate) struct Cbc {
    encrypting: PaddedBlockEncryptingKey,
    decrypting: PaddedBlockDecryptingKey,
}

impl Cbc {
    /// A key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Cbc, TransformError> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            32 => &AES_256,
            other => return Err(TransformError(format!("crypto/aes: invalid key size {other}"))),
        };
        let bad = |_| TransformError::new("invalid AES key");
        let unbound = || UnboundCipherKey::new(algorithm, key).map_err(bad);
        Ok(Cbc {
            encrypting: PaddedBlockEncryptingKey::cbc_pkcs7(unbound()?).map_err(bad)?,
            decrypting: PaddedBlockDecryptingKey::cbc_pkcs7(unbound()?).map_err(bad)?,
        })
    }

    pub(crate) fn seal(&self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut iv = [0; BLOCK];
        random(&mut iv)?;
        let mut body = plain.to_vec();
        let context = EncryptionContext::Iv128(FixedLength::from(iv));
        let sealed = self.encrypting.less_safe_encrypt(&mut body, context);
        sealed.map_err(|_| TransformError::new("encryption failed"))?;
        out.extend_from_slice(&iv);
        out.extend_from_slice(&body);
        Ok(())
    }

    pub(crate) fn open(&self, data: &[u8]) -> Result<Vec<u8>, TransformError> {
        let Some((iv, body)) = data.split_first_chunk::<BLOCK>() else {
            return Err(TransformError::new(TOO_SHORT));
        };
        if body.len() % BLOCK != 0 {
            return Err(TransformError::new("the stored data is not a multiple of the block size"));
        }
        let mut body = body.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(*iv));
        let opened = self.decrypting.decrypt(&mut body, context);
        let length = opened.map_err(|_| TransformError::new("invalid padding on input"))?.len();
        body.truncate(length);
        Ok(body)
    }
}
