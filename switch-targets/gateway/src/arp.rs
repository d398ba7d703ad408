//! Finds the MAC addresses of IPv4 neighbours by ARP probes (RFC 5227 section 2.1.1).
//!
//! A probe has the sender address 0.0.0.0, so no host learns anything from it, and the kernel needs no address on the
//! interface. The only unsafe code of this program: packet sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

pub type Mac = [u8; 6];

const FRAME: usize = 42;
const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const REPLY: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 2];
const ETH_P_ARP: u16 = 0x0806;
/// Probes sent without a pause.
const BURST: usize = 32;
const ROUNDS: u32 = 3;
const ROUND: Duration = Duration::from_millis(400);

/// Asks for each of `targets` at the interface with this index and MAC address; the answers that came.
pub fn probe(index: i32, own: Mac, targets: &[Ipv4Addr]) -> io::Result<BTreeMap<Ipv4Addr, Mac>> {
    let socket = open(index)?;
    let mut found = BTreeMap::new();
    for _ in 0..ROUNDS {
        let missing: Vec<Ipv4Addr> = targets
            .iter()
            .copied()
            .filter(|it| !found.contains_key(it))
            .collect();
        if missing.is_empty() {
            break;
        }
        for burst in missing.chunks(BURST) {
            for target in burst {
                send(&socket, &request(own, *target))?;
            }
            receive(&socket, own, targets, &mut found, Duration::from_millis(10))?;
        }
        receive(&socket, own, targets, &mut found, ROUND)?;
    }
    Ok(found)
}

fn request(own: Mac, target: Ipv4Addr) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&own);
    frame[12..14].copy_from_slice(&ETH_P_ARP.to_be_bytes());
    frame[14..22].copy_from_slice(&REQUEST);
    frame[22..28].copy_from_slice(&own);
    frame[38..42].copy_from_slice(&target.octets());
    frame
}

/// The sender of a reply, if the frame is one.
fn sender(frame: &[u8]) -> Option<(Ipv4Addr, Mac)> {
    let frame: &[u8; FRAME] = frame.get(..FRAME)?.try_into().ok()?;
    if frame[12..14] != ETH_P_ARP.to_be_bytes() || frame[14..22] != REPLY {
        return None;
    }
    let address: [u8; 4] = frame[28..32].try_into().ok()?;
    let mac: Mac = frame[22..28].try_into().ok()?;
    // A group address is no station's.
    (mac[0] & 1 == 0).then(|| (Ipv4Addr::from(address), mac))
}

fn receive(
    socket: &OwnedFd,
    own: Mac,
    targets: &[Ipv4Addr],
    found: &mut BTreeMap<Ipv4Addr, Mac>,
    wait: Duration,
) -> io::Result<()> {
    let end = Instant::now() + wait;
    let mut frame = [0; 1514];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || found.len() == targets.len() || !readable(socket, left)? {
            return Ok(());
        }
        // SAFETY: the buffer is valid for its length.
        let count = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                frame.as_mut_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let cause = io::Error::last_os_error();
            if cause.kind() == io::ErrorKind::WouldBlock {
                continue;
            }
            return Err(cause);
        };
        if let Some((address, mac)) = sender(&frame[..count])
            && mac != own
            && targets.contains(&address)
        {
            found.entry(address).or_insert(mac);
        }
    }
}

fn readable(socket: &OwnedFd, wait: Duration) -> io::Result<bool> {
    let mut asked = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let milliseconds = i32::try_from(wait.as_millis().max(1)).unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd.
    match unsafe { libc::poll(&mut asked, 1, milliseconds) } {
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(false),
        -1 => Err(io::Error::last_os_error()),
        count => Ok(count > 0),
    }
}

fn send(socket: &OwnedFd, frame: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is valid for its length; the socket is bound to its interface.
    let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn open(index: i32) -> io::Result<OwnedFd> {
    let protocol = ETH_P_ARP.to_be();
    // SAFETY: no memory is passed; the result is checked and then owned here alone.
    let socket = unsafe {
        let fd = libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            i32::from(protocol),
        );
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: zeros are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::sa_family_t::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = protocol;
    address.sll_ifindex = index;
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or_default();
    // SAFETY: the address is valid for its length.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if bound < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [2, 0, 0, 0, 0, 2];

    #[test]
    fn a_probe_names_no_sender() {
        let frame = request(OWN, Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(frame[28..32], [0; 4]);
        assert_eq!(sender(&frame), None);
    }

    #[test]
    fn a_reply_of_one_station_is_taken() {
        let mut frame = request(OWN, Ipv4Addr::UNSPECIFIED);
        frame[14..22].copy_from_slice(&REPLY);
        frame[22..28].copy_from_slice(&THEIRS);
        frame[28..32].copy_from_slice(&[192, 0, 2, 1]);
        assert_eq!(sender(&frame), Some((Ipv4Addr::new(192, 0, 2, 1), THEIRS)));
        assert_eq!(sender(&frame[..41]), None);
        frame[22] |= 1;
        assert_eq!(sender(&frame), None);
    }
}
