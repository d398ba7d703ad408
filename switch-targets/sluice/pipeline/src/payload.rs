//! The bytes behind the last extracted header, as an extern sees and changes them.
//!
//! ```text
//!  ┌───────────┬──────────────────────┬───────────┐
//!  │ head room │ payload  start..end  │ tail room │   one buffer; room is made by moving only when it is used up
//!  └───────────┴──────────────────────┴───────────┘
//! ```

/// Room before a packet that has just been loaded, in bytes: enough for every outer header.
const HEAD_ROOM: usize = 256;
/// Room behind it: enough for an ESP trailer and ICV.
const TAIL_ROOM: usize = 128;

/// A packet's unparsed bytes. The room before them in the buffer is free: headers live in fields, not here.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Payload {
    /// Makes a payload of `bytes` with room around them, for an extern's own tests and for the pipeline.
    pub fn from_bytes(bytes: &[u8]) -> Payload {
        let mut payload = Payload::default();
        payload.load(bytes);
        payload
    }

    pub(crate) fn load(&mut self, bytes: &[u8]) {
        let needed = HEAD_ROOM + bytes.len() + TAIL_ROOM;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        self.start = HEAD_ROOM;
        self.end = HEAD_ROOM + bytes.len();
        self.buffer[self.start..self.end].copy_from_slice(bytes);
    }

    pub fn len(&self) -> usize {
        self.end - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    /// Drops `count` bytes from the front, or all there are.
    pub fn trim_front(&mut self, count: usize) {
        self.start += count.min(self.len());
    }

    /// Drops what is behind the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start.saturating_add(len));
    }

    /// Adds `count` bytes at the front and returns them; their content is arbitrary.
    pub fn grow_front(&mut self, count: usize) -> &mut [u8] {
        if count > self.start {
            let more = count - self.start + HEAD_ROOM;
            self.buffer.splice(0..0, std::iter::repeat_n(0, more));
            self.start += more;
            self.end += more;
        }
        self.start -= count;
        &mut self.buffer[self.start..self.start + count]
    }

    /// `front`, then the payload, in one piece. The payload is as before.
    pub(crate) fn behind(&mut self, front: &[u8]) -> &[u8] {
        self.grow_front(front.len()).copy_from_slice(front);
        let whole = self.start;
        self.start += front.len();
        &self.buffer[whole..self.end]
    }

    /// Adds `count` bytes at the back and returns them; their content is arbitrary.
    pub fn grow_back(&mut self, count: usize) -> &mut [u8] {
        let end = self.end + count;
        if end > self.buffer.len() {
            self.buffer.resize(end + TAIL_ROOM, 0);
        }
        let grown = self.end;
        self.end = end;
        &mut self.buffer[grown..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_beyond_its_room_on_both_sides() {
        let mut payload = Payload::from_bytes(b"middle");
        payload.grow_front(1000).fill(1);
        payload.grow_back(1000).fill(2);
        assert_eq!(payload.len(), 2006);
        payload.trim_front(1000);
        payload.truncate(6);
        assert_eq!(payload.bytes(), b"middle");
    }

    #[test]
    fn is_seen_behind_headers_and_unchanged() {
        let mut payload = Payload::from_bytes(b"payload");
        assert_eq!(payload.behind(b"front "), b"front payload");
        assert_eq!(payload.behind(&[b'x'; 1000]).len(), 1007);
        assert_eq!(payload.bytes(), b"payload");
    }

    #[test]
    fn trimming_stops_at_empty() {
        let mut payload = Payload::from_bytes(b"abc");
        payload.trim_front(2);
        payload.truncate(9);
        assert_eq!(payload.bytes(), b"c");
        payload.trim_front(usize::MAX);
        payload.truncate(usize::MAX);
        assert!(payload.is_empty());
    }
}
