// The P4 extern `EspEngine` (p4/gateway/esp_engine.p4) on the ESP engine of ipsec/esp.
//
//   P4 arguments ─► CulvertEspSa ─► culvert_esp_open / _seal ─► verdict, and the payload rewritten
//
// A packet that fails to open or to seal becomes empty, so that it never leaves as it came.
#include <bm/bm_sim/extern.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "engines.h"
#include "payload.h"

using bm::Data;
using culvert::Payload;

static_assert(CULVERT_ESP_OVERHEAD <= culvert::kMostGrowth, "sealing must fit into bmv2's head room");

namespace {

std::uint64_t now_ms() {
  using std::chrono::milliseconds;
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(since_boot).count());
}

CulvertEspLimits limits(const Data &packets, const Data &bytes, const Data &seconds) {
  return {packets.get<std::uint64_t>(), bytes.get<std::uint64_t>(), seconds.get<std::uint32_t>()};
}

// bmv2 exports a number without its leading zeros: put them back.
void right_align(const Data &number, std::uint8_t (&field)[CULVERT_ESP_WRAPPED_KEY_LEN]) {
  const std::string digits = number.get_string();
  const std::size_t length = std::min(digits.size(), sizeof field);
  std::memcpy(field + sizeof field - length, digits.data() + digits.size() - length, length);
}

bool done(CulvertEspVerdict verdict) {
  return verdict == CULVERT_ESP_VERDICT_OK || verdict == CULVERT_ESP_VERDICT_SOFT_LIMIT;
}

}  // namespace

class EspEngine : public bm::ExternType {
 public:
  BM_EXTERN_ATTRIBUTES { BM_EXTERN_ATTRIBUTE_ADD(slots); }

  void init() override {
    slots_ = slots.get<std::uint32_t>();
    const bool fits = slots_ != 0 && slots_ <= culvert::kMostSlots;
    engine_ = fits ? culvert::engine_of(get_name()) : culvert::refused(get_name(), "its slots must be 1 to 65536");
  }

  void open(const Data &slot, const Data &suite, const Data &wrapped_key, const Data &spi, const Data &esn,
            const Data &replay_window, const Data &soft_packets, const Data &soft_bytes, const Data &soft_seconds,
            const Data &hard_packets, const Data &hard_bytes, const Data &hard_seconds, const Data &length,
            Data &newest, Data &verdict) {
    CulvertEspSa sa = described(slot, suite, wrapped_key, spi, esn);
    sa.replay_window = replay_window.get<std::uint16_t>();
    sa.soft = limits(soft_packets, soft_bytes, soft_seconds);
    sa.hard = limits(hard_packets, hard_bytes, hard_seconds);

    Payload payload(get_packet());
    const std::size_t wanted = length.get<std::size_t>();
    CulvertEspOpened opened{CULVERT_ESP_VERDICT_KEY, false, 0, 0};
    if (wanted > payload.size()) {
      opened.verdict = CULVERT_ESP_VERDICT_MALFORMED;
    } else if (serves(sa.slot)) {
      culvert_esp_open(engine_, &sa, now_ms(), payload.data(), wanted, &opened);
    }
    if (done(opened.verdict)) {
      payload.keep(opened.offset, opened.len);
    } else {
      payload.keep(0, 0);
    }
    newest.set(opened.newest ? 1 : 0);
    verdict.set(static_cast<int>(opened.verdict));
  }

  void seal(const Data &slot, const Data &suite, const Data &wrapped_key, const Data &spi, const Data &esn,
            const Data &soft_packets, const Data &soft_bytes, const Data &soft_seconds, const Data &hard_packets,
            const Data &hard_bytes, const Data &hard_seconds, Data &length, Data &verdict) {
    CulvertEspSa sa = described(slot, suite, wrapped_key, spi, esn);
    sa.soft = limits(soft_packets, soft_bytes, soft_seconds);
    sa.hard = limits(hard_packets, hard_bytes, hard_seconds);

    Payload payload(get_packet());
    CulvertEspSealed sealed{CULVERT_ESP_VERDICT_KEY, 0};
    if (payload.size() > CULVERT_ESP_MAX_PACKET - CULVERT_ESP_OVERHEAD) {
      sealed.verdict = CULVERT_ESP_VERDICT_MALFORMED;
    } else if (serves(sa.slot)) {
      room_.resize(payload.size() + CULVERT_ESP_OVERHEAD);
      culvert_esp_seal(engine_, &sa, now_ms(), payload.data(), payload.size(), room_.data(), room_.size(), &sealed);
    }
    if (!done(sealed.verdict) || !payload.replace(room_.data(), sealed.len)) {
      payload.keep(0, 0);
      sealed.len = 0;
    }
    length.set(sealed.len);
    verdict.set(static_cast<int>(sealed.verdict));
  }

 private:
  static CulvertEspSa described(const Data &slot, const Data &suite, const Data &wrapped_key, const Data &spi,
                                const Data &esn) {
    CulvertEspSa sa{};
    sa.slot = slot.get<std::uint32_t>();
    sa.spi = spi.get<std::uint32_t>();
    sa.suite = suite.get<std::uint8_t>();
    sa.esn = esn.get<std::uint8_t>();
    right_align(wrapped_key, sa.wrapped_key);
    return sa;
  }

  bool serves(std::uint32_t slot) const { return engine_ != nullptr && slot < slots_; }

  Data slots{0};
  std::uint32_t slots_{0};
  const CulvertEsp *engine_{nullptr};
  std::vector<std::uint8_t> room_;
};

BM_REGISTER_EXTERN(EspEngine)
BM_REGISTER_EXTERN_METHOD(EspEngine, open, const Data &, const Data &, const Data &, const Data &, const Data &, const Data &,
                          const Data &, const Data &, const Data &, const Data &, const Data &, const Data &,
                          const Data &, Data &, Data &);
BM_REGISTER_EXTERN_METHOD(EspEngine, seal, const Data &, const Data &, const Data &, const Data &, const Data &,
                          const Data &, const Data &, const Data &, const Data &, const Data &, const Data &,
                          Data &, Data &);
