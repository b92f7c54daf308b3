//! The frames that a client of a watch sends: pings are answered, a close frame ends the watch, everything else is
//! discarded as it arrives. Nothing of it is buffered but one head and one ping.

/// The longest head: two bytes, a length of eight, a mask of four.
const HEAD_BYTES_MAX: usize = 14;
/// The longest frame. kube-apiserver reads each frame as a whole, and refuses longer ones.
const FRAME_BYTES_MAX: u64 = 32 << 20;
/// How much of a ping is returned in its pong.
const PONG_BYTES_MAX: usize = 125;

const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;

/// Why a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client closes it, or sends a frame that is too long.
    Closed,
    /// A frame has no mask.
    ProtocolError,
}

/// The state between two reads.
#[derive(Default)]
pub(super) struct Incoming {
    /// The bytes of an incomplete head.
    head: Vec<u8>,
    /// The bytes of the current frame that are still to come.
    left: u64,
    /// The beginning of the current ping, still masked; `None` if the frame is no ping.
    ping: Option<Vec<u8>>,
    mask: [u8; 4],
}

/// A complete head.
struct Head {
    opcode: u8,
    length: u64,
    mask: Option<[u8; 4]>,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Head> {
        let (&[first, second], rest) = bytes.split_first_chunk()?;
        let (length, rest) = match second & 0x7f {
            126 => {
                rest.split_first_chunk().map(|(length, rest)| (u64::from(u16::from_be_bytes(*length)), rest))
            }
            127 => rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest)),
            short => Some((u64::from(short), rest)),
        }?;
        let mask = match second & 0x80 {
            0 => None,
            _ => Some(*rest.first_chunk()?),
        };
        // As in Go, the highest bit of a length is ignored.
        Some(Head { opcode: first & 0x0f, length: length & (u64::MAX >> 1), mask })
    }
}

impl Incoming {
    /// Takes the next bytes, and appends the pongs that they ask for. The pongs take no more than what was taken.
    pub(super) fn take(&mut self, bytes: &[u8], pongs: &mut Vec<u8>) -> Result<(), End> {
        let mut rest = bytes;
        while let Some((&next, after)) = rest.split_first() {
            if self.left > 0 {
                let length = usize::try_from(self.left).unwrap_or(rest.len()).min(rest.len());
                let (piece, after) = rest.split_at(length);
                self.left = self.left.saturating_sub(u64::try_from(length).unwrap_or(0));
                if let Some(ping) = &mut self.ping {
                    ping.extend(piece.iter().take(PONG_BYTES_MAX.saturating_sub(ping.len())));
                }
                rest = after;
            } else {
                rest = after;
                self.head.push(next);
                let Some(head) = Head::parse(&self.head) else {
                    debug_assert!(self.head.len() < HEAD_BYTES_MAX);
                    continue;
                };
                self.head.clear();
                self.begin(&head)?;
            }
            if self.left == 0
                && let Some(ping) = self.ping.take()
            {
                let unmasked = ping.iter().zip(self.mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
                pongs.extend([FINAL | PONG, u8::try_from(ping.len()).unwrap_or(0)]);
                pongs.extend(unmasked);
            }
        }
        Ok(())
    }

    fn begin(&mut self, head: &Head) -> Result<(), End> {
        self.mask = head.mask.ok_or(End::ProtocolError)?;
        self.left = head.length;
        self.ping = (head.opcode == PING).then(Vec::new);
        let is_control = matches!(head.opcode, PING | PONG);
        if head.opcode == CLOSE || (!is_control && head.length > FRAME_BYTES_MAX) {
            Err(End::Closed)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![FINAL | opcode];
        match u8::try_from(payload.len()) {
            Ok(short) if short < 126 => out.push(0x80 | short),
            _ => {
                out.push(0x80 | 126);
                out.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
            }
        }
        out.extend([1, 2, 3, 4]);
        out.extend(payload.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, mask)| byte ^ mask));
        out
    }

    /// Takes the bytes in pieces of `size`.
    fn taken(bytes: &[u8], size: usize) -> (Vec<u8>, Result<(), End>) {
        let (mut incoming, mut pongs) = (Incoming::default(), Vec::new());
        let ended = bytes.chunks(size).try_for_each(|piece| incoming.take(piece, &mut pongs));
        (pongs, ended)
    }

    #[test]
    fn pings_are_answered_between_messages() {
        let sent = [
            frame(1, b"hello"),
            frame(PING, b""),
            frame(2, &[7; 300]),
            frame(PONG, b"unasked"),
            frame(PING, b"abcde"),
            frame(0, b"rest"),
            frame(PING, &[9; 200]),
        ]
        .concat();
        let wanted = [&[0x8a, 0, 0x8a, 5][..], b"abcde", &[0x8a, 125], &[9; 125]].concat();
        for size in [1, 2, 3, 7, 1024] {
            assert_eq!(taken(&sent, size), (wanted.clone(), Ok(())), "in pieces of {size}");
        }
    }

    #[test]
    fn watches_end() {
        let huge = [&[0x82, 0xff][..], &(33_u64 << 20).to_be_bytes(), &[0; 4]].concat();
        for (bytes, end) in [
            (frame(CLOSE, b""), End::Closed),
            (frame(CLOSE, b"\x03\xe8"), End::Closed),
            (huge, End::Closed),
            (vec![0x81, 1, b'a'], End::ProtocolError),
        ] {
            assert_eq!(taken(&bytes, 1).1, Err(end), "{bytes:?}");
        }
    }
}
