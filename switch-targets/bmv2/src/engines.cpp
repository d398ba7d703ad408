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

void say(const std::string &name, const std::string &what) {
  std::fprintf(stderr, "culvert_bmv2: %s: %s\n", name.c_str(), what.c_str());
}

const CulvertEsp *engine_of(const std::string &name) {
  // Never destroyed: a packet may still be on its way when the process ends.
  static auto &mutex = *new std::mutex;
  static auto &engines = *new std::map<std::string, CulvertEsp *>;
  const std::lock_guard<std::mutex> lock(mutex);

  if (const auto known = engines.find(name); known != engines.end()) return known->second;
  if (engines.size() >= kMostEngines) {
    say(name, "too many engines of other names exist; every packet is refused. Remedy: restart the switch");
    return nullptr;
  }
  const char *kek = std::getenv("CULVERT_ESP_KEK");
  if (kek == nullptr) {
    say(name, "CULVERT_ESP_KEK is not set; every packet is refused. Remedy: set it to the key-encryption key's file");
    return nullptr;
  }
  CulvertEsp *engine = nullptr;
  const auto status = culvert_esp_new_from_file(kek, std::getenv("CULVERT_ESP_ALLOW"), kMostSlots, &engine);
  if (status != CULVERT_ESP_STATUS_OK) {
    say(name, std::string(culvert_esp_status_text(status)) + "; every packet is refused. Remedy: mend " +
                  (status == CULVERT_ESP_STATUS_UNKNOWN_SUITE ? "CULVERT_ESP_ALLOW" : kek) + ", restart the switch");
    return nullptr;
  }
  engines.emplace(name, engine);
  return engine;
}

}  // namespace culvert
