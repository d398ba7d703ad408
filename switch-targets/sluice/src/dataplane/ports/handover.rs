//! Open ports on their way to another process: the sockets themselves, so that frames that wait in them go along.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use super::attachment::Attachment;
use super::fanout::Share;
use super::given::{GivenOffload, GivenPort, GivenSocket};
use super::options::{bound_to, index, mtu};
use super::ring::Ring;
use super::socket::{Offload, PacketSocket};
use super::{Port, PortArg, PortState, PortStats, Warned, ways};

/// The threads' ports, in the order of the threads, and the descriptors of the open ones.
///
/// # Errors
/// `Unsupported` for a port on AF_XDP.
pub fn give(ports: &[Vec<Port>]) -> io::Result<(Vec<GivenPort>, Vec<BorrowedFd<'_>>)> {
    let (mut given, mut descriptors) = (Vec::new(), Vec::new());
    for port in ports.iter().flatten() {
        let socket = match &port.state {
            PortState::Open(Attachment::Packet(socket)) => {
                descriptors.push(socket.fd());
                Some(socket.give())
            }
            PortState::Open(Attachment::Xdp(_)) => {
                let text = format!(
                    "port {} is on AF_XDP, whose memory belongs to this process alone; restart the switch instead, which ends its tunnels",
                    port.number
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            PortState::Closed { .. } => None,
        };
        let number = port.number.into();
        given.push(GivenPort { number, socket });
    }
    Ok((given, descriptors))
}

/// Takes the ports of [`give`] for the same arguments.
///
/// # Errors
/// They are of other arguments, or the system refuses them.
pub fn take(
    ports: &[PortArg],
    offload: bool,
    threads: usize,
    given: Vec<GivenPort>,
    descriptors: Vec<OwnedFd>,
) -> io::Result<Vec<Vec<Port>>> {
    let other = || io::Error::other("the ports are not those of this command line");
    if given.len() != ports.len() * threads {
        return Err(other());
    }
    let (mut given, mut descriptors) = (given.into_iter(), descriptors.into_iter());
    let mut taken = Vec::new();
    for ways in ways(ports, offload, threads) {
        let mut own = Vec::new();
        for (port, way) in ports.iter().zip(ways) {
            let from = given
                .next()
                .filter(|it| it.number == u32::from(port.number));
            let state = match from.ok_or_else(other)?.socket {
                Some(socket) => {
                    let fd = descriptors.next().ok_or_else(other)?;
                    PortState::Open(Attachment::take(&port.interface, &way, &socket, fd)?)
                }
                None => PortState::Closed {
                    since: Instant::now(),
                },
            };
            own.push(Port {
                number: port.number,
                interface: port.interface.clone(),
                way,
                state,
                stats: PortStats::default(),
                warned: Warned::default(),
                backlog: None,
            });
        }
        taken.push(own);
    }
    Ok(taken)
}

impl PacketSocket {
    /// Goes on with the socket of another process, whose frames wait in it.
    ///
    /// # Errors
    /// The socket is bound to another interface, or the system gives no mapping.
    pub(super) fn take(
        interface: &str,
        share: &Share,
        given: &GivenSocket,
        fd: OwnedFd,
    ) -> io::Result<Self> {
        if bound_to(fd.as_fd())? != Some(index(interface)?) {
            let text = format!("the socket is not one of {interface}");
            return Err(io::Error::other(text));
        }
        let mtu = mtu(fd.as_fd(), interface)?;
        let offload = given.offload.map(|it| Offload::with(mtu, it.tcp, it.udp));
        let ring = given.ring.as_ref();
        let ring = ring.map(|ring| Ring::take(fd.as_fd(), ring, offload.is_some()));
        let membership = match (share, given.group) {
            (Share::Flows(group), Some(id)) => {
                Some(group.adopt(u16::try_from(id).map_err(io::Error::other)?))
            }
            _ => None,
        };
        Ok(Self {
            ring: ring.transpose()?,
            fd,
            offload,
            membership,
        })
    }

    fn give(&self) -> GivenSocket {
        GivenSocket {
            ring: self.ring.as_ref().map(Ring::give),
            offload: self.offload.as_ref().map(|it| GivenOffload {
                tcp: it.may.tcp,
                udp: it.may.udp,
            }),
            group: self.membership.as_ref().map(|it| it.id().into()),
        }
    }
}
