//! Extern objects that the program instantiates and the embedder implements.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bits::{self, Bits};
use crate::bitstream::{Writer, mask};
use crate::calculation;
use crate::ir::{Attributes, Ir};
use crate::payload::Payload;
use crate::phv::Phv;

/// An extern object. Its methods are named once, at load; packets call them by index, from several threads at once.
pub trait Extern: Send + Sync {
    /// The index that [`Extern::call`] gets for `name` with `arity` arguments; `None` when there is no such method,
    /// which makes the program unloadable.
    fn method(&self, name: &str, arity: usize) -> Option<usize>;

    /// Returns whether a method may ask for [`Packet::whole`]. No trace holds such a call, because a trace keeps no headers.
    fn sees_headers(&self) -> bool {
        false
    }

    /// Runs a method. `args` are in the order of the declaration, `in` and `out` alike; what is set in an `out`
    /// argument is written to the field that the program passed. `now` is the time since the switch started.
    fn call(&self, method: usize, args: &mut [ExternArg], packet: &mut Packet<'_>, now: Duration);
}

/// An argument of an extern call.
#[derive(Clone, Debug, Default)]
pub struct ExternArg {
    width: u32,
    pub(crate) changed: bool,
    /// The low 128 bits.
    low: u128,
    /// The same, big-endian.
    narrow: [u8; 16],
    /// All bytes, if the value has more than 128 bits.
    wide: Vec<u8>,
}

impl ExternArg {
    /// Makes an argument for an extern's own tests.
    pub fn new(value: &Bits) -> ExternArg {
        let mut arg = ExternArg::default();
        arg.fill_with(value.width(), |bytes| bytes.copy_from_slice(value.bytes()));
        arg
    }

    /// Width in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Big-endian, `width` rounded up to whole bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self.width {
            0..=128 => &self.narrow[16 - bits::byte_len(self.width)..],
            _ => &self.wide,
        }
    }

    /// The low 64 bits.
    #[inline]
    pub fn as_u64(&self) -> u64 {
        self.low as u64
    }

    /// The low 128 bits.
    #[inline]
    pub fn as_u128(&self) -> u128 {
        self.low
    }

    /// Sets the value, cut to the argument's width.
    #[inline]
    pub fn set(&mut self, value: u128) {
        self.fill(self.width, value);
        self.changed = true;
    }

    /// Sets the value from big-endian bytes, cut to the argument's width.
    pub fn set_bytes(&mut self, big_endian: &[u8]) {
        let width = self.width;
        self.fill_with(width, |bytes| {
            bits::copy_low(big_endian, bytes);
            if let Some(first) = bytes.first_mut() {
                *first &= bits::first_byte_mask(width);
            }
        });
        self.changed = true;
    }

    #[inline]
    pub(crate) fn fill(&mut self, width: u32, value: u128) {
        self.width = width;
        self.low = value & mask(width);
        match width {
            0..=128 => self.narrow = self.low.to_be_bytes(),
            _ => {
                self.wide.resize(bits::byte_len(width), 0);
                bits::write_low(&mut self.wide, value);
            }
        }
        self.changed = false;
    }

    /// Takes another's width and value.
    #[inline]
    pub(crate) fn copy(&mut self, other: &ExternArg) {
        (self.width, self.low, self.narrow) = (other.width, other.low, other.narrow);
        if self.width > 128 {
            self.wide.clone_from(&other.wide);
        }
        self.changed = false;
    }

    /// `write` fills the bytes, and leaves no bit outside the width.
    pub(crate) fn fill_with(&mut self, width: u32, write: impl FnOnce(&mut [u8])) {
        self.width = width;
        match width {
            0..=128 => {
                self.narrow = [0; 16];
                write(&mut self.narrow[16 - bits::byte_len(width)..]);
                self.low = u128::from_be_bytes(self.narrow);
            }
            _ => {
                self.wide.resize(bits::byte_len(width), 0);
                write(&mut self.wide);
                self.low = bits::read_low(&self.wide);
            }
        }
        self.changed = false;
    }
}

type Factory = Box<dyn Fn(&str, &Attributes) -> Result<Box<dyn Extern>, String> + Send + Sync>;

/// The packet that calls a method.
pub struct Packet<'a> {
    /// The bytes behind the last extracted header.
    pub payload: &'a mut Payload,
    headers: Option<Headers<'a>>,
}

struct Headers<'a> {
    ir: &'a Ir,
    phv: &'a Phv,
    scratch: &'a mut Vec<u8>,
}

impl<'a> Packet<'a> {
    /// Makes a packet without headers for an extern's own tests.
    pub fn of(payload: &'a mut Payload) -> Packet<'a> {
        Packet {
            payload,
            headers: None,
        }
    }

    pub(crate) fn with_headers(
        payload: &'a mut Payload,
        ir: &'a Ir,
        phv: &'a Phv,
        scratch: &'a mut Vec<u8>,
    ) -> Packet<'a> {
        Packet {
            payload,
            headers: Some(Headers { ir, phv, scratch }),
        }
    }

    /// The headers that are valid now in the order of the deparser, checksums as the program left them, then the payload.
    pub fn whole(&mut self) -> &[u8] {
        let Some(Headers { ir, phv, scratch }) = &mut self.headers else {
            return self.payload.bytes();
        };
        deparse(ir, phv, scratch);
        self.payload.behind(scratch)
    }
}

/// Writes the valid headers, and nothing else, into `bytes`.
pub fn deparse(ir: &Ir, phv: &Phv, bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut writer = Writer::new(bytes);
    for header in &ir.deparser {
        if phv.is_valid(*header) {
            calculation::write_header(&mut writer, &ir.layout, phv, *header);
        }
    }
    writer.finish();
}

/// The extern types that the embedder brings.
#[derive(Default)]
pub struct ExternRegistry {
    factories: BTreeMap<String, Factory>,
}

impl ExternRegistry {
    pub fn new() -> ExternRegistry {
        ExternRegistry::default()
    }

    /// `factory` makes an object from the instance's name (`GatewayIngress.inbound.opener`) and its constructor's
    /// arguments; its error text goes into the [`crate::LoadError`]. State that must survive a new program lives in what
    /// the factory captures.
    pub fn register(
        &mut self,
        type_name: &str,
        factory: impl Fn(&str, &Attributes) -> Result<Box<dyn Extern>, String> + Send + Sync + 'static,
    ) {
        self.factories
            .insert(type_name.to_owned(), Box::new(factory));
    }

    pub(crate) fn make(
        &self,
        type_name: &str,
        name: &str,
        attributes: &Attributes,
    ) -> Result<Box<dyn Extern>, String> {
        match self.factories.get(type_name) {
            Some(factory) => factory(name, attributes),
            None => Err(format!("extern type {type_name} is not registered")),
        }
    }
}
