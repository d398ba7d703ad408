//! The ancillary data of a datagram: its traffic class (ip(7), IP_TOS and IP_RECVTOS).

use std::mem;

use esp::TrafficClass;

/// Room for one message with an `int`, aligned as `cmsghdr` needs it.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct Control([u8; 32]);

impl Control {
    /// Attached to a message that is sent: its outer header gets this traffic class.
    pub fn set(&mut self, header: &mut libc::msghdr, class: TrafficClass) {
        let tos = libc::c_int::from(class.0);
        let size = mem::size_of_val(&tos) as libc::c_uint;
        self.attach(header);
        // SAFETY: `attach` gave the header this buffer, which has room for a message of an `int`; none of the pointers
        // into it is null then.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let message = libc::CMSG_FIRSTHDR(header);
            (*message).cmsg_level = libc::IPPROTO_IP;
            (*message).cmsg_type = libc::IP_TOS;
            (*message).cmsg_len = libc::CMSG_LEN(size) as _;
            libc::CMSG_DATA(message)
                .cast::<libc::c_int>()
                .write_unaligned(tos);
        }
    }

    /// Room for what comes with a message that is received.
    pub fn attach(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.0.as_mut_ptr().cast();
        header.msg_controllen = mem::size_of_val(&self.0) as _;
    }
}

/// The traffic class of a received message whose header still has its `Control`; zero if the system did not say.
///
/// # Safety
/// `header.msg_control` and `msg_controllen` are as recvmmsg left them, and the buffer is alive.
pub unsafe fn received_class(header: &libc::msghdr) -> TrafficClass {
    // SAFETY: the kernel wrote whole messages into the buffer, of which CMSG_FIRSTHDR checks the first one's size.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        let known = !message.is_null()
            && (*message).cmsg_level == libc::IPPROTO_IP
            && (*message).cmsg_type == libc::IP_TOS;
        TrafficClass(if known { *libc::CMSG_DATA(message) } else { 0 })
    }
}
