//! NaCl's secretbox: XSalsa20-Poly1305 with random nonces. The key that a value is stored under is not authenticated.

use crate::provider::TransformError;
use crate::random;
use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Key, Nonce, XSalsa20Poly1305};

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// A key of 32 bytes.
pub(crate) struct Secretbox(XSalsa20Poly1305);

impl Secretbox {
    pub(crate) fn new(key: &[u8]) -> Result<Secretbox, TransformError> {
        let key: [u8; 32] = key.try_into().map_err(|_| {
            TransformError(format!("expected key size 32 for secretbox provider, got {}", key.len()))
        })?;
        Ok(Secretbox(XSalsa20Poly1305::new(&Key::from(key))))
    }

    pub(crate) fn seal(&self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce)?;
        let sealed = self.0.encrypt(&Nonce::from(nonce), plain);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed.map_err(|_| TransformError::new("encryption failed"))?);
        Ok(())
    }

    pub(crate) fn open(&self, data: &[u8]) -> Result<Vec<u8>, TransformError> {
        let split = data.split_first_chunk::<NONCE_BYTES>().filter(|(_, body)| body.len() >= TAG_BYTES);
        let Some((nonce, body)) = split else {
            return Err(TransformError::new("the stored data was shorter than the required size"));
        };
        let opened = self.0.decrypt(&Nonce::from(*nonce), body);
        // kube-apiserver's message for a value that is damaged or encrypted with another key.
        opened.map_err(|_| TransformError::new("output array was not large enough for encryption"))
    }
}
