// The P4 extern `PayloadTail` (p4/gateway/esp_engine.p4).
#include <bm/bm_sim/extern.h>

#include "payload.h"

class PayloadTail : public bm::ExternType {
 public:
  BM_EXTERN_ATTRIBUTES {}

  void cut(const bm::Data &length) {
    culvert::Payload(get_packet()).keep(0, length.get<std::size_t>());
  }
};

BM_REGISTER_EXTERN(PayloadTail)
BM_REGISTER_EXTERN_METHOD(PayloadTail, cut, const bm::Data &);
