//! The ancillary data of a datagram: its traffic class (ip(7), IP_TOS; ipv6(7), IPV6_TCLASS) and, where several come or go
//! as one, the length of each (udp(7), UDP_SEGMENT and UDP_GRO).

use std::mem;
use std::net::IpAddr;

use esp::TrafficClass;

/// Room for both messages with an `int` each, aligned as `cmsghdr` needs it.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct Control([u64; 8]);

/// The ancillary data of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub class: TrafficClass,
    /// Length of each datagram but the last, if the message is several.
    pub segment: Option<usize>,
}

const INT: libc::c_uint = mem::size_of::<libc::c_int>() as libc::c_uint;

impl Control {
    /// Attaches itself to a message that is sent: its outer header gets this traffic class, and with `segment` it leaves as
    /// several datagrams of that length.
    pub fn set(
        &mut self,
        header: &mut libc::msghdr,
        to: IpAddr,
        class: TrafficClass,
        segment: Option<u16>,
    ) {
        self.attach(header);
        let (level, kind) = match to {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        // SAFETY: `attach` gave the header this buffer, which has room for two messages of an `int`; so none of the
        // pointers into it is null, and `segment` is no longer than an `int`.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(header);
            put(first, level, kind, libc::c_int::from(class.0));
            let mut len = libc::CMSG_SPACE(INT);
            if let Some(segment) = segment {
                put(
                    libc::CMSG_NXTHDR(header, first),
                    libc::SOL_UDP,
                    libc::UDP_SEGMENT,
                    segment,
                );
                len += libc::CMSG_SPACE(mem::size_of_val(&segment) as libc::c_uint);
            }
            header.msg_controllen = len as _;
        }
    }

    /// Attaches room for the ancillary data of a message that is received.
    pub fn attach(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.0.as_mut_ptr().cast();
        header.msg_controllen = mem::size_of_val(&self.0) as _;
    }
}

/// # Safety
/// `message` points to a control message with room for `value`.
unsafe fn put<T>(message: *mut libc::cmsghdr, level: libc::c_int, kind: libc::c_int, value: T) {
    // SAFETY: as the caller says; the data needs no alignment.
    unsafe {
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = libc::CMSG_LEN(mem::size_of::<T>() as libc::c_uint) as _;
        libc::CMSG_DATA(message).cast::<T>().write_unaligned(value);
    }
}

/// Reads the ancillary data of a received message whose header still has its `Control`. The class is zero if the system gave none.
///
/// # Safety
/// `header.msg_control` and `msg_controllen` are as recvmmsg left them, and the buffer is alive.
pub unsafe fn received(header: &libc::msghdr) -> Received {
    let mut received = Received {
        class: TrafficClass(0),
        segment: None,
    };
    // SAFETY: the kernel wrote whole messages into the buffer, whose sizes CMSG_FIRSTHDR and CMSG_NXTHDR check. IP_TOS
    // comes with a byte, IPV6_TCLASS and UDP_GRO with an `int`.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => received.class = TrafficClass(*data),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = data.cast::<libc::c_int>().read_unaligned();
                    received.class = TrafficClass(class as u8);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let segment = data.cast::<libc::c_int>().read_unaligned();
                    received.segment = usize::try_from(segment).ok().filter(|len| *len > 0);
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    received
}
