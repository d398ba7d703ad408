//! A packet as the extern sees it that it has called.

use crate::bitstream::Writer;
use crate::calculation;
use crate::ir::Ir;
use crate::payload::Payload;
use crate::phv::Phv;

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
    /// For an extern's own tests: a packet without headers.
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
