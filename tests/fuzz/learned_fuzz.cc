// What a worker has kept of how long work takes: whatever the file says, what is taken over
// predicts finite times, and is written and read again as it is.
#include <cmath>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/data/xxh3.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/server/learned_file.h"

namespace tandem::worker {
namespace {

constexpr MonoTime kMono = MonoTime::FromNanos(1);
constexpr std::string_view kHead = "tandem learned 1\n";

absl::Time Now() { return absl::FromUnixSeconds(1'800'000'000); }

// Without its head and checksum, which a mutation would never hit.
FUZZ_SEEDS(learned) {
  DeviceModel model;
  for (const char* kernel : {"spin@1", "gemm@2"}) {
    for (double tasks = 1; tasks < 1e6; tasks *= 10) {
      CHECK(model.Learn({kernel, "k=21"}, {tasks, 1e-7},
                        {1e-6, tasks * 1e-9, tasks * 3e-9, tasks * 2e-9, tasks * 8, tasks * 4},
                        kMono));
    }
  }
  const DeviceModelState state = model.State(kMono + absl::Seconds(3));
  const std::vector<std::vector<KeptDevice>> files = {
      {},
      {{{"cpu", 2, state}, "a CPU"}},
      {{{"cpu", 2, state}, "a CPU"}, {{"cuda:GPU-1", 1, state}, "NVIDIA H200"}}};
  std::vector<std::string> seeds;
  for (const auto& file : files) {
    seeds.push_back(EncodeLearned(file, Now()).substr(kHead.size() + sizeof(uint64_t)));
  }
  return seeds;
}

void CheckLines(const DeviceModel& model, const DeviceModelState& state) {
  for (const DeviceModelState::Kernel& kernel : state.kernels) {
    const auto line = model.Predict(kernel.key, kernel.hint);
    if (!line.has_value()) continue;  // forgotten for others
    for (const BatchSeconds& of : {line->fixed, line->per_task}) {
      for (const double seconds : {of.host, of.up, of.grid, of.down}) {
        CHECK(std::isfinite(seconds) && seconds >= 0);
      }
    }
  }
}

FUZZ_TARGET(learned) {
  static const google::protobuf::LogSilencer quiet;  // of strings that are not UTF-8
  std::string bytes(kHead);
  for (size_t i = 0; i < sizeof(uint64_t); ++i) {
    bytes += static_cast<char>(Xxh3(input) >> (8 * i) & 0xff);
  }
  bytes += input;
  const auto read = DecodeLearned(bytes, Now());
  if (!read.ok()) {
    CHECK(ReasonOf(read.status()) == reason::kBadFile);
    return;
  }
  std::vector<KeptDevice> taken;
  for (const KeptDevice& device : *read) {
    DeviceModel model;
    if (!model.Restore(device.learned.model, kMono)) continue;
    CheckLines(model, device.learned.model);
    taken.push_back(
        {{device.learned.device, device.learned.lanes, model.State(kMono)}, device.hardware});
  }
  const auto again = DecodeLearned(EncodeLearned(taken, Now()), Now());
  CHECK_OK(again);
  CHECK(*again == taken);
}

}  // namespace
}  // namespace tandem::worker
