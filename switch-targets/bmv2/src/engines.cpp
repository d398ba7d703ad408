#include "engines.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace culvert {
namespace {

// Engines that all programs pushed so far may name together.
constexpr std::size_t kMostEngines = 16;

}  // namespace

std::nullptr_t refused(const std::string &name, const std::string &why) {
  std::fprintf(stderr, "culvert_bmv2: %s refuses every packet: %s\n", name.c_str(), why.c_str());
  return nullptr;
}

const CulvertEsp *engine_of(const std::string &name) {
  // Never destroyed: a packet may still be on its way when the process ends.
  static auto &mutex = *new std::mutex;
  static auto &engines = *new std::map<std::string, CulvertEsp *>;
  const std::lock_guard<std::mutex> lock(mutex);

  if (const auto known = engines.find(name); known != engines.end()) return known->second;
  if (engines.size() >= kMostEngines) return refused(name, "16 engines of other names exist: restart the switch");
  const char *kek = std::getenv("CULVERT_ESP_KEK");
  if (kek == nullptr) return refused(name, "CULVERT_ESP_KEK is not set: it names the key-encryption key's file");
  CulvertEsp *engine = nullptr;
  const auto status = culvert_esp_new_from_file(kek, std::getenv("CULVERT_ESP_ALLOW"), kMostSlots, &engine);
  if (status != CULVERT_ESP_STATUS_OK) {
    const char *at_fault = status == CULVERT_ESP_STATUS_UNKNOWN_SUITE ? "CULVERT_ESP_ALLOW" : kek;
    return refused(name, std::string(at_fault) + ": " + culvert_esp_status_text(status));
  }
  engines.emplace(name, engine);
  return engine;
}

}  // namespace culvert
