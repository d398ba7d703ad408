//! Extern objects that the program instantiates and the embedder implements.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bits::{self, Bits};
use crate::packet::Packet;

/// An extern object. Its methods are named once, at load; packets call them by index, from several threads at once.
pub trait Extern: Send + Sync {
    /// The index that [`Extern::call`] gets for `name` with `arity` arguments; `None` when there is no such method,
    /// which makes the program unloadable.
    fn method(&self, name: &str, arity: usize) -> Option<usize>;

    /// Whether a method may ask for [`Packet::whole`]. Such a call is never left to a recorded path, which keeps no headers.
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
    bytes: Vec<u8>,
    pub(crate) changed: bool,
}

impl ExternArg {
    /// For an extern's own tests.
    pub fn new(value: &Bits) -> ExternArg {
        ExternArg {
            width: value.width(),
            bytes: value.bytes().to_vec(),
            changed: false,
        }
    }

    /// In bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Big-endian, `width` rounded up to whole bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The low 64 bits.
    pub fn as_u64(&self) -> u64 {
        bits::read_low(&self.bytes) as u64
    }

    /// The low 128 bits.
    pub fn as_u128(&self) -> u128 {
        bits::read_low(&self.bytes)
    }

    /// Sets the value, cut to the argument's width.
    pub fn set(&mut self, value: u128) {
        self.fill(self.width, value);
        self.changed = true;
    }

    /// Sets the value from big-endian bytes, cut to the argument's width.
    pub fn set_bytes(&mut self, big_endian: &[u8]) {
        bits::copy_low(big_endian, &mut self.bytes);
        if let Some(first) = self.bytes.first_mut() {
            *first &= bits::first_byte_mask(self.width);
        }
        self.changed = true;
    }

    pub(crate) fn fill(&mut self, width: u32, value: u128) {
        self.width = width;
        self.bytes.resize(bits::byte_len(width), 0);
        bits::write_low(&mut self.bytes, value);
        if let Some(first) = self.bytes.first_mut() {
            *first &= bits::first_byte_mask(width);
        }
        self.changed = false;
    }

    /// `write` fills the bytes, and leaves no bit outside the width.
    pub(crate) fn fill_with(&mut self, width: u32, write: impl FnOnce(&mut [u8])) {
        self.width = width;
        self.bytes.resize(bits::byte_len(width), 0);
        write(&mut self.bytes);
        self.changed = false;
    }
}

/// Constructor arguments of an extern object, by name.
pub type Attributes = BTreeMap<String, Bits>;

type Factory = Box<dyn Fn(&str, &Attributes) -> Result<Box<dyn Extern>, String> + Send + Sync>;

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
