// The ESP engines of this process, by the name of the P4 instance.
//
// Sequence numbers and replay windows belong to the switch, not to the program: bmv2 makes new extern instances whenever
// a program is pushed, and an engine that started anew would repeat IVs under living keys.
#pragma once

#include <culvert_esp.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace culvert {

// Slots of each engine; what a program asks for is at most this.
constexpr std::uint32_t kMostSlots = 65536;

// The engine of the instance `name`, made at its first use. nullptr, with the reason on stderr, when there is no usable
// key-encryption key: the caller then answers every packet with KEY. The engine lives as long as the process.
//
// CULVERT_ESP_KEK is the path of the key-encryption key, CULVERT_ESP_ALLOW the legacy suites to allow.
const CulvertEsp *engine_of(const std::string &name);

// Says on stderr why an instance has no engine. Never an engine.
std::nullptr_t refused(const std::string &name, const std::string &why);

}  // namespace culvert
