//! Messages between the two processes: over a Unix socket that nothing else has, their contents in sealed memory.
//!
//! ```text
//!   record:  "sluiceHO" │ version │ kind │ length │ SHA-256 of the content        descriptors: memfd with the content, others
//! ```
//! A record arrives whole or not at all (SOCK_SEQPACKET), and a record that is sent is read even if its sender has ended. A
//! content is neither in a file nor in the socket, and nobody can change it once it is sent.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair,
};
use thiserror::Error;
use zeroize::Zeroizing;

/// The version of all messages. A version that changes what a message means has another number.
pub const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"sluiceHO";
const RECORD: usize = 8 + 2 + 2 + 8 + 32;
/// Bytes of a content.
pub const MAX_CONTENT: u64 = 1 << 30;
/// Descriptors of a record (SCM_MAX_FD is 253).
pub const MAX_DESCRIPTORS: usize = 250;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// The new process is one that can take over.
    Hello = 1,
    /// The state that the control plane alone changes, the listening sockets, the key-encryption keys.
    Offer,
    /// The new process has built what it was offered.
    Prepared,
    /// The state that packets have changed, and the ports: no packet runs.
    State,
    /// The new process goes on from here. Once this is sent, the old process ends.
    Taken,
    /// The new process does not take over; the content is the reason.
    Refused,
}

const KINDS: [Kind; 6] = [
    Kind::Hello,
    Kind::Offer,
    Kind::Prepared,
    Kind::State,
    Kind::Taken,
    Kind::Refused,
];

#[derive(Debug, Error)]
pub enum ChannelError {
    #[error("it has ended")]
    Ended,
    #[error("it has not answered in time")]
    Late,
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("it speaks version {0} of the hand-over, this process version {VERSION}")]
    OtherVersion(u16),
    #[error("it sent {0}")]
    Malformed(&'static str),
    #[error("the state has {0} bytes, {MAX_CONTENT} can be handed over")]
    TooLong(u64),
    #[error("{0} descriptors are to be handed over, {MAX_DESCRIPTORS} can be")]
    TooMany(usize),
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for ChannelError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::PIPE | Errno::CONNRESET => Self::Ended,
            Errno::AGAIN => Self::Late,
            error => Self::System(error.into()),
        }
    }
}

pub struct Channel(OwnedFd);

/// A message that has arrived, checked.
pub struct Received {
    pub kind: Kind,
    pub content: Zeroizing<Vec<u8>>,
    pub descriptors: Vec<OwnedFd>,
}

impl Channel {
    pub fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Both ends. The second is for the other process.
    ///
    /// # Errors
    /// The system gives none.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (own, other) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self(own), other))
    }

    /// # Errors
    /// The other process has ended, or the message is too long.
    pub fn send(
        &self,
        kind: Kind,
        content: &[u8],
        others: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        if others.len() >= MAX_DESCRIPTORS {
            return Err(ChannelError::TooMany(others.len() + 1));
        }
        let memory = sealed(content)?;
        let mut descriptors = vec![memory.as_fd()];
        descriptors.extend(others);
        let mut room = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(ChannelError::TooMany(descriptors.len()));
        }
        let record = record(kind, content);
        let flags = SendFlags::NOSIGNAL;
        let mut sent = sendmsg(&self.0, &[IoSlice::new(&record)], &mut control, flags);
        while sent == Err(Errno::INTR) {
            sent = sendmsg(&self.0, &[IoSlice::new(&record)], &mut control, flags);
        }
        Ok(sent.map(drop)?)
    }

    /// The next message, which is of this kind.
    ///
    /// # Errors
    /// Another kind, or as [`Channel::receive_any`]. A refusal is [`ChannelError::Refused`].
    pub fn receive(&self, kind: Kind, limit: Duration) -> Result<Received, ChannelError> {
        let received = self.receive_any(limit)?;
        match received.kind {
            got if got == kind => Ok(received),
            Kind::Refused => {
                let reason = String::from_utf8_lossy(&received.content).into_owned();
                Err(ChannelError::Refused(reason))
            }
            _ => Err(ChannelError::Malformed("another message than was due")),
        }
    }

    /// # Errors
    /// None came in time, the other process has ended, or the message is not one of this version.
    pub fn receive_any(&self, limit: Duration) -> Result<Received, ChannelError> {
        set_socket_timeout(&self.0, Timeout::Recv, Some(limit))?;
        let mut bytes = [0; RECORD + 1];
        let mut room = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut receive = || {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        };
        let mut got = receive();
        while matches!(got, Err(Errno::INTR)) {
            got = receive();
        }
        let got = got?;
        let mut descriptors: Vec<OwnedFd> = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                descriptors.extend(fds);
            }
        }
        if got.bytes == 0 {
            return Err(ChannelError::Ended);
        }
        if got
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
        {
            return Err(ChannelError::Malformed("a record that is too long"));
        }
        let record = bytes.get(..got.bytes).unwrap_or_default();
        let (kind, length, sum) = parse(record)?;
        if descriptors.is_empty() {
            return Err(ChannelError::Malformed("a record without its content"));
        }
        let content = unsealed(&descriptors.remove(0), length)?;
        if digest(&SHA256, &content).as_ref() != sum {
            return Err(ChannelError::Malformed("a content that is damaged"));
        }
        Ok(Received {
            kind,
            content,
            descriptors,
        })
    }

    /// From now on the other process can send nothing; what it has sent before can still be received.
    ///
    /// # Errors
    /// The system's.
    pub fn refuse_more(&self) -> io::Result<()> {
        Ok(shutdown(&self.0, Shutdown::Read)?)
    }
}

fn record(kind: Kind, content: &[u8]) -> Vec<u8> {
    let mut record = MAGIC.to_vec();
    record.extend(VERSION.to_le_bytes());
    record.extend((kind as u16).to_le_bytes());
    record.extend((content.len() as u64).to_le_bytes());
    record.extend(digest(&SHA256, content).as_ref());
    record
}

/// Kind, length and checksum.
fn parse(record: &[u8]) -> Result<(Kind, u64, [u8; 32]), ChannelError> {
    let no_record = || ChannelError::Malformed("a record that is none");
    let (magic, rest) = record.split_first_chunk::<8>().ok_or_else(no_record)?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(no_record)?;
    if *magic != MAGIC {
        return Err(no_record());
    }
    let version = u16::from_le_bytes(*version);
    if version != VERSION {
        return Err(ChannelError::OtherVersion(version));
    }
    let (kind, rest) = rest.split_first_chunk::<2>().ok_or_else(no_record)?;
    let (length, sum) = rest.split_first_chunk::<8>().ok_or_else(no_record)?;
    let kind = u16::from_le_bytes(*kind);
    let kind = KINDS.into_iter().find(|it| *it as u16 == kind);
    let sum = sum.try_into().map_err(|_| no_record())?;
    Ok((
        kind.ok_or_else(no_record)?,
        u64::from_le_bytes(*length),
        sum,
    ))
}

/// Memory with this content, which nobody can change.
///
/// # Errors
/// It is too long, or the system gives no memory.
pub fn sealed(content: &[u8]) -> Result<OwnedFd, ChannelError> {
    let length = content.len() as u64;
    if length > MAX_CONTENT {
        return Err(ChannelError::TooLong(length));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut memory = File::from(memfd_create("sluice", flags)?);
    memory.write_all(content)?;
    fcntl_add_seals(&memory, SEALS)?;
    Ok(memory.into())
}

const SEALS: SealFlags = SealFlags::SEAL
    .union(SealFlags::SHRINK)
    .union(SealFlags::GROW)
    .union(SealFlags::WRITE);

/// The content of sealed memory of `length` bytes.
///
/// # Errors
/// It is not sealed, of another length, or too long.
pub fn unsealed(memory: &OwnedFd, length: u64) -> Result<Zeroizing<Vec<u8>>, ChannelError> {
    let seals = fcntl_get_seals(memory).unwrap_or(SealFlags::empty());
    if !seals.contains(SEALS) {
        return Err(ChannelError::Malformed("memory that is not sealed"));
    }
    if length > MAX_CONTENT {
        return Err(ChannelError::TooLong(length));
    }
    let memory = File::from(memory.try_clone()?);
    let size = usize::try_from(length).ok();
    let (true, Some(size)) = (memory.metadata()?.len() == length, size) else {
        return Err(ChannelError::Malformed("a content of another length"));
    };
    let mut content = Zeroizing::new(vec![0; size]);
    memory.read_exact_at(&mut content, 0)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const LIMIT: Duration = Duration::from_millis(200);

    fn ends() -> (Channel, Channel) {
        let (own, other) = Channel::pair().unwrap();
        (own, Channel::new(other))
    }

    /// Sends a record with sealed memory beside it, whatever they are.
    fn send_raw(to: &Channel, record: &[u8], memory: &OwnedFd) {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let descriptors = [memory.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(
            &to.0,
            &[IoSlice::new(record)],
            &mut control,
            SendFlags::empty(),
        )
        .unwrap();
    }

    fn fault(record: &[u8], memory: &OwnedFd) -> String {
        let (own, other) = ends();
        send_raw(&own, record, memory);
        other.receive_any(LIMIT).err().unwrap().to_string()
    }

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (own, other) = ends();
        let extra = sealed(b"extra").unwrap();
        own.send(Kind::Offer, b"content", &[extra.as_fd()]).unwrap();
        let got = other.receive(Kind::Offer, LIMIT).unwrap();
        assert_eq!(
            (got.content.as_slice(), got.descriptors.len()),
            (&b"content"[..], 1)
        );
        assert_eq!(*unsealed(&got.descriptors[0], 5).unwrap(), b"extra");
        own.send(Kind::Refused, b"why", &[]).unwrap();
        let refused = other.receive(Kind::Taken, LIMIT).err().unwrap();
        assert_eq!(refused.to_string(), "it refuses: why");
        assert!(matches!(other.receive_any(LIMIT), Err(ChannelError::Late)));
    }

    #[test]
    fn what_was_sent_before_the_end_is_read_and_nothing_after() {
        let (own, other) = ends();
        other.send(Kind::Taken, b"", &[]).unwrap();
        own.refuse_more().unwrap();
        assert!(matches!(
            other.send(Kind::Taken, b"", &[]),
            Err(ChannelError::Ended)
        ));
        assert!(own.receive(Kind::Taken, LIMIT).is_ok());
        assert!(matches!(own.receive_any(LIMIT), Err(ChannelError::Ended)));
        drop(other);
        assert!(matches!(
            own.send(Kind::Offer, b"", &[]),
            Err(ChannelError::Ended)
        ));
    }

    #[test]
    fn another_version_and_open_memory_are_refused() {
        let memory = sealed(b"content").unwrap();
        let mut newer = record(Kind::Offer, b"content");
        newer[8..10].copy_from_slice(&7_u16.to_le_bytes());
        assert!(fault(&newer, &memory).contains("version 7"));
        let open = memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
        let whole = record(Kind::Offer, b"");
        assert!(fault(&whole, &open).contains("not sealed"));
        assert!(fault(&whole, &memory).contains("another length"));
        assert!(fault(&record(Kind::Offer, b"tampere"), &memory).contains("damaged"));
        let mut long = whole;
        long[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(fault(&long, &memory).contains("can be handed over"));
    }

    proptest! {
        #[test]
        fn a_record_that_is_cut_or_changed_is_refused(cut in 1..RECORD, at in 0..RECORD, flip in 1..=u8::MAX) {
            let memory = sealed(b"content").unwrap();
            let whole = record(Kind::Offer, b"content");
            fault(&whole[..cut], &memory);
            let mut changed = whole;
            changed[at] ^= flip;
            // Another kind is a message too; which one is due is for the receiver to say.
            if !(10..12).contains(&at) {
                fault(&changed, &memory);
            }
        }
    }
}
