//! The TUN device: IP packets, and super-frames where the kernel has vnet headers for it.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use offload::{Link, MAX_PACKETS, Mergeable, Train, VNET_LEN, Vnet};

use crate::device::check;

/// Room for what one read brings: an IPv6 packet can be 65575 bytes long.
pub const FRAME_ROOM: usize = VNET_LEN + 65536 + 64;

const TCP: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// Linux 6.2.
const UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// A layer-3 TUN device without packet information; it goes away with the last descriptor.
pub struct Tun {
    file: File,
    vnet: bool,
    tso: bool,
    uso: bool,
}

/// A frame from one read: a packet, or a super-frame.
pub struct Frame<'a> {
    pub header: Vnet,
    pub packet: &'a [u8],
}

impl Tun {
    /// Opens the device with the offloads that the kernel has, or with none.
    pub fn open(name: &str, offloads: bool) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        let mut features: libc::c_uint = 0;
        // SAFETY: TUNGETFEATURES writes one `unsigned int`, which outlives the call.
        let asked =
            check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETFEATURES, &mut features) });
        let vnet = offloads && asked.is_ok() && features & libc::IFF_VNET_HDR as libc::c_uint != 0;
        let mut request = interface_request(name)?;
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | if vnet { libc::IFF_VNET_HDR } else { 0 };
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
        let uso = vnet && accepts(&file, TCP | UDP);
        let tso = uso || (vnet && accepts(&file, TCP));
        Ok(Self {
            file,
            vnet,
            tso,
            uso,
        })
    }

    /// TCP super-frames in both directions.
    pub fn has_tso(&self) -> bool {
        self.tso
    }

    /// The packets that the device takes merged to super-frames.
    pub fn mergeable(&self) -> Option<Mergeable> {
        self.tso.then_some(Mergeable {
            link: Link::None,
            mtu: usize::MAX,
            tcp: true,
            udp: false,
        })
    }

    /// UDP super-frames from programs that send them.
    pub fn has_uso(&self) -> bool {
        self.uso
    }

    /// `None` when nothing is left to read. `room` has FRAME_ROOM bytes.
    pub fn read<'a>(&self, room: &'a mut [u8]) -> io::Result<Option<Frame<'a>>> {
        let len = match (&self.file).read(room) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = room.get(..len).unwrap_or_default();
        let frame = if self.vnet {
            let (header, packet) = read.split_first_chunk().unwrap_or((&[0xff; VNET_LEN], &[]));
            Frame {
                header: Vnet::parse(*header),
                packet,
            }
        } else {
            Frame {
                header: Vnet::default(),
                packet: read,
            }
        };
        Ok(Some(frame))
    }

    /// Writes packets as one frame; `packet` gives the bytes of each. Without TCP super-frames it is one packet.
    pub fn write<'a>(&self, train: &Train, packet: impl Fn(usize) -> &'a [u8]) -> io::Result<()> {
        let mut slices = [IoSlice::new(train.head()); 1 + MAX_PACKETS];
        for (slice, number) in slices[1..].iter_mut().zip(train.packets()) {
            let bytes = packet(*number).get(train.headers()..);
            *slice = IoSlice::new(bytes.unwrap_or_default());
        }
        let slices = &slices[usize::from(!self.vnet)..1 + train.packets().len()];
        (&self.file).write_vectored(slices).map(|_| ())
    }
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The name needs a byte for its terminating zero.
    if name.is_empty()
        || name.len() >= request.ifr_name.len()
        || name.contains(['/', '\0', ' ', '%'])
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not an interface name",
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn accepts(file: &File, offloads: libc::c_uint) -> bool {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(offloads),
        )
    })
    .is_ok()
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
