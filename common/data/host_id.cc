#include "common/data/host_id.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace tandem {

std::string HostId() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::array<char, 64> space{};
  const ssize_t length = readlink("/proc/self/ns/mnt", space.data(), space.size());
  if (!std::getline(file, boot) || boot.empty() || length <= 0) return "";
  return boot + "/" + std::string(space.data(), static_cast<size_t>(length));
}

}  // namespace tandem
