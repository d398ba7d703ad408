//! The XDP program that gives every frame of an interface's first queue to a socket, through bpf(2).
//!
//! ```text
//!   interface ──► program ──► map: queue 0 ──► socket
//!                    └─ no socket there: the kernel's own stack
//! ```

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

// linux/bpf.h
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const PSEUDO_MAP_FD: u8 = 1;
const FUNC_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Offset of the field in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;
/// linux/if_link.h: by the kernel, for drivers without XDP of their own; and by the driver.
const FLAGS_SKB_MODE: u32 = 2;
const FLAGS_DRV_MODE: u32 = 4;

/// The program at work. The kernel takes it off the interface when this is dropped, or the process ends.
pub(super) struct Attached {
    _link: OwnedFd,
    /// The frames go through socket buffers: the driver has no XDP.
    pub generic: bool,
}

impl Attached {
    /// Attaches the program for a socket that is bound to the interface's queue 0.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_BPF and CAP_NET_ADMIN; `ResourceBusy` where another program is.
    pub fn new(socket: BorrowedFd<'_>, interface: c_uint) -> io::Result<Self> {
        let map = sockets()?;
        insert(&map, socket)?;
        let program = load(&map)?;
        let native = attach(&program, interface, FLAGS_DRV_MODE);
        let generic = native.is_err();
        let link = native.or_else(|error| match error.kind() {
            io::ErrorKind::ResourceBusy | io::ErrorKind::PermissionDenied => Err(error),
            _ => attach(&program, interface, FLAGS_SKB_MODE),
        })?;
        Ok(Self {
            _link: link,
            generic,
        })
    }
}

/// A map of one socket.
fn sockets() -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    made(bpf(
        MAP_CREATE,
        &Create {
            map_type: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: 1,
            map_flags: 0,
        },
    )?)
}

fn insert(map: &OwnedFd, socket: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Update {
        map: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let (queue, socket) = (0_u32, socket.as_raw_fd());
    let update = Update {
        map: number(map.as_raw_fd())?,
        key: (&raw const queue) as u64,
        value: (&raw const socket) as u64,
        flags: 0,
    };
    bpf(MAP_UPDATE_ELEM, &update).map(drop)
}

/// return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);
fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct Load {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
        prog_ifindex: u32,
        expected_attach_type: u32,
    }
    let program = [
        instruction(0x61, 2, 1, RX_QUEUE_INDEX, 0), // r2 = *(u32 *)(r1 + …)
        instruction(0x18, 1, PSEUDO_MAP_FD, 0, map.as_raw_fd()), // r1 = map, in two slots
        instruction(0, 0, 0, 0, 0),
        instruction(0xb7, 3, 0, 0, XDP_PASS), // r3 = …
        instruction(0x85, 0, 0, 0, FUNC_REDIRECT_MAP),
        instruction(0x95, 0, 0, 0, 0), // exit
    ];
    let license = c"none needed";
    made(bpf(
        PROG_LOAD,
        &Load {
            prog_type: PROG_TYPE_XDP,
            insn_cnt: program.len() as u32,
            insns: program.as_ptr() as u64,
            license: license.as_ptr() as u64,
            prog_name: *b"sluice\0\0\0\0\0\0\0\0\0\0",
            expected_attach_type: ATTACH_XDP,
            ..Load::default()
        },
    )?)
}

/// `struct bpf_insn`.
fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let registers = if cfg!(target_endian = "little") {
        from << 4 | to
    } else {
        to << 4 | from
    };
    let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), immediate.to_ne_bytes());
    [code, registers, a, b, c, d, e, f]
}

fn attach(program: &OwnedFd, interface: c_uint, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Link {
        program: u32,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    made(bpf(
        LINK_CREATE,
        &Link {
            program: number(program.as_raw_fd())?,
            interface,
            attach_type: ATTACH_XDP,
            flags,
        },
    )?)
}

fn number(fd: RawFd) -> io::Result<u32> {
    u32::try_from(fd).map_err(io::Error::other)
}

/// `attributes` is what `union bpf_attr` holds for the command; pointers in it lead to live values.
fn bpf<T>(command: c_int, attributes: &T) -> io::Result<RawFd> {
    // SAFETY: `attributes` is as long as said and outlives the call; callers keep what it points to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    match RawFd::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

fn made(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that the kernel has just made, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
