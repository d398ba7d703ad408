// The bytes behind the last extracted header, resized at the front, where bmv2 keeps the room.
//
//   bmv2's buffer:  | head room | payload |      no room behind it
//
//   keep(n):        | head room ........ | n |             the kept bytes move right
//   replace(b, n):  | head room | b, n bytes |             the front moves left or right, then all is written
#pragma once

#include <bm/bm_sim/packet.h>

#include <cstddef>
#include <cstdint>

namespace culvert {

// The bytes that one call may add. bmv2 gives every packet 512 bytes of head room; the deparser needs the rest for outer headers.
constexpr std::size_t kMostGrowth = 128;

class Payload {
 public:
  explicit Payload(bm::Packet &packet) : packet_(packet) {}

  std::uint8_t *data() { return reinterpret_cast<std::uint8_t *>(packet_.data()); }
  std::size_t size() const { return packet_.get_data_size(); }

  // Keeps `length` bytes from `offset`. What does not exist is not kept.
  void keep(std::size_t offset, std::size_t length);

  // Puts `length` bytes in place of all there are. False, and an empty payload, when that grows it by more than kMostGrowth.
  bool replace(const std::uint8_t *bytes, std::size_t length);

 private:
  void resize_front(std::size_t size);

  bm::Packet &packet_;
};

}  // namespace culvert
