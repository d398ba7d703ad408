#include "payload.h"

#include <algorithm>
#include <cstring>

namespace culvert {
namespace {

// The register from which simple_switch sets standard_metadata.packet_length. Its own primitives keep it up to date.
constexpr std::size_t kPacketLengthRegister = 0;

}  // namespace

void Payload::keep(std::size_t offset, std::size_t length) {
  const std::size_t before = size();
  offset = std::min(offset, before);
  length = std::min(length, before - offset);
  std::memmove(data() + (before - length), data() + offset, length);
  resize_front(length);
}

bool Payload::replace(const std::uint8_t *bytes, std::size_t length) {
  if (length > size() + kMostGrowth) {
    resize_front(0);
    return false;
  }
  resize_front(length);
  std::copy_n(bytes, length, data());
  return true;
}

void Payload::resize_front(std::size_t size_wanted) {
  const std::size_t before = size();
  if (size_wanted > before) {
    packet_.prepend(size_wanted - before);
  } else {
    packet_.remove(before - size_wanted);
  }
  const auto length = packet_.get_register(kPacketLengthRegister);
  packet_.set_register(kPacketLengthRegister, length - before + size_wanted);
}

}  // namespace culvert
