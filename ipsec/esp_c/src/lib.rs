//! The C ABI of the ESP engine: what `include/culvert_esp.h` declares.
//!
//! ```text
//!  C or C++ ──► calls.rs: every pointer and length is checked, panics stop here ──► esp::engine
//!                 │
//!                 └─ status: was the call well-formed?   result.verdict: what became of the packet
//! ```
//!
//! A caller that looks at the verdict alone fails closed: whenever the status is not OK, the verdict is KEY and no
//! byte counts as output.

mod calls;
mod kek_file;
mod types;

pub use calls::{
    culvert_esp_free, culvert_esp_new, culvert_esp_new_from_file, culvert_esp_open,
    culvert_esp_seal, culvert_esp_status_text,
};
pub use types::{
    CULVERT_ESP_MAX_PACKET, CULVERT_ESP_OVERHEAD, CULVERT_ESP_WRAPPED_KEY_LEN, CulvertEsp,
    CulvertEspLimits, CulvertEspOpened, CulvertEspSa, CulvertEspSealed, CulvertEspStatus,
    CulvertEspVerdict,
};
