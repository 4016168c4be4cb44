#include "worker/server/learned_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/xxh3.h"
#include "tandem/worker/v1/learned.pb.h"

namespace tandem::worker {
namespace {

constexpr std::string_view kMagic = "tandem learned ";
constexpr std::string_view kVersion = "1\n";
constexpr size_t kSumBytes = 8;

absl::Status BadFile(std::string_view what) {
  return Error(absl::StatusCode::kDataLoss, reason::kBadFile, StrCat("it ", what));
}

void Encode(const RateModel::Sums& from, worker::v1::Line* to) {
  to->set_weight(from.weight);
  to->set_units(from.n);
  to->set_seconds(from.s);
  to->set_units2(from.nn);
  to->set_product(from.ns);
  to->set_fixed(from.fixed);
}

RateModel::Sums Decode(const worker::v1::Line& from) {
  return {from.weight(), from.units(), from.seconds(), from.units2(), from.product(), from.fixed()};
}

void Encode(const DeviceModelState::Kernel& from, absl::Time now, worker::v1::LearnedKernel* to) {
  to->set_kernel(from.key.kernel);
  to->set_extents(from.key.extents);
  Encode(from.grid, to->mutable_grid());
  Encode(from.host, to->mutable_host());
  to->set_hint(from.hint);
  to->set_tasks(from.tasks);
  to->set_bytes_up(from.bytes_up);
  to->set_bytes_down(from.bytes_down);
  to->set_samples(from.samples);
  to->set_learned_unix_ns(absl::ToUnixNanos(now - from.age));
}

// A clock that was set back makes nothing younger than new.
DeviceModelState::Kernel Decode(worker::v1::LearnedKernel* from, absl::Time now) {
  return {{std::move(*from->mutable_kernel()), std::move(*from->mutable_extents())},
          Decode(from->grid()),
          Decode(from->host()),
          from->hint(),
          from->tasks(),
          from->bytes_up(),
          from->bytes_down(),
          from->samples(),
          std::max(now - absl::FromUnixNanos(from->learned_unix_ns()), absl::ZeroDuration())};
}

std::string SumOf(std::string_view body) {
  const uint64_t sum = Xxh3(body);
  std::string bytes;
  for (size_t i = 0; i < kSumBytes; ++i) bytes += static_cast<char>(sum >> (8 * i) & 0xff);
  return bytes;
}

}  // namespace

std::string EncodeLearned(const std::vector<KeptDevice>& devices, absl::Time now) {
  worker::v1::Learned message;
  for (const KeptDevice& device : devices) {
    worker::v1::LearnedDevice* to = message.add_devices();
    to->set_device(device.learned.device);
    to->set_hardware(device.hardware);
    to->set_lanes(device.learned.lanes);
    Encode(device.learned.model.up, to->mutable_up());
    Encode(device.learned.model.down, to->mutable_down());
    for (const DeviceModelState::Kernel& kernel : device.learned.model.kernels) {
      Encode(kernel, now, to->add_kernels());
    }
  }
  const std::string body = message.SerializeAsString();
  return StrCat(kMagic, kVersion, SumOf(body), body);
}

absl::StatusOr<std::vector<KeptDevice>> DecodeLearned(std::string_view bytes, absl::Time now) {
  if (bytes.size() > kLearnedBytesMax) return BadFile("is larger than any worker writes");
  if (bytes.substr(0, kMagic.size()) != kMagic) return BadFile("is not of this kind");
  bytes.remove_prefix(kMagic.size());
  if (bytes.substr(0, kVersion.size()) != kVersion) return BadFile("is of another version");
  bytes.remove_prefix(kVersion.size());
  const std::string_view sum = bytes.substr(0, kSumBytes);
  const std::string_view body = bytes.substr(sum.size());
  worker::v1::Learned message;
  if (sum != SumOf(body) || !message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return BadFile("was cut short or changed: its checksum is another");
  }
  std::vector<KeptDevice> devices;
  for (worker::v1::LearnedDevice& from : *message.mutable_devices()) {
    KeptDevice& to = devices.emplace_back();
    to.learned.device = std::move(*from.mutable_device());
    to.hardware = std::move(*from.mutable_hardware());
    to.learned.lanes = from.lanes();
    to.learned.model.up = Decode(from.up());
    to.learned.model.down = Decode(from.down());
    for (worker::v1::LearnedKernel& kernel : *from.mutable_kernels()) {
      to.learned.model.kernels.push_back(Decode(&kernel, now));
    }
  }
  return devices;
}

LearnedThatFits KeepWhatFits(std::vector<KeptDevice> kept,
                             const std::map<std::string, std::string>& hardware,
                             const std::set<std::string>& kernels) {
  LearnedThatFits fits;
  for (KeptDevice& device : kept) {
    const auto there = hardware.find(device.learned.device);
    if (there == hardware.end() || there->second != device.hardware) {
      StrAppend(&fits.devices_dropped, fits.devices_dropped.empty() ? "" : ", ",
                device.learned.device);
      continue;
    }
    auto& rows = device.learned.model.kernels;
    fits.kernels_dropped +=
        std::erase_if(rows, [&](const auto& row) { return !kernels.contains(row.key.kernel); });
    fits.kernels += rows.size();
    fits.devices.push_back(std::move(device.learned));
  }
  return fits;
}

LearnedKeeper::LearnedKeeper(std::string path, FileSystem* files)
    : path_(std::move(path)), files_(files), thread_([this] { Run(); }) {}

LearnedKeeper::~LearnedKeeper() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<std::vector<KeptDevice>> LearnedKeeper::Read(absl::Time now) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files_->Open(path_, FileSystem::Mode::kRead));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > kLearnedBytesMax) return BadFile("is larger than any worker writes");
  ASSIGN_OR_RETURN(const std::string bytes, ReadFully(*file, 0, size));
  return DecodeLearned(bytes, now);
}

void LearnedKeeper::Save(std::string bytes) {
  absl::MutexLock lock(&mu_);
  next_ = std::move(bytes);
}

void LearnedKeeper::Run() {
  bool well = true;
  for (;;) {
    std::string bytes;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &LearnedKeeper::Woken));
      bytes = std::exchange(next_, {});
    }
    if (bytes.empty()) return;
    const absl::Status status = Write(bytes);
    if (!status.ok() && well) {
      TLOG(Warning, "rates_not_kept", "why", ToStd(status.message()), "then",
           "they are learned anew after a restart");
    }
    well = status.ok();
  }
}

// In place whole or not at all.
absl::Status LearnedKeeper::Write(const std::string& bytes) {
  const std::string part = path_ + ".part";
  files_->Remove(part).IgnoreError();  // of a worker that was killed
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                     files_->Open(part, FileSystem::Mode::kCreate));
    RETURN_IF_ERROR(WriteFully(*file, 0, bytes));
    RETURN_IF_ERROR(file->Sync());
  }
  return files_->Rename(part, path_);
}

}  // namespace tandem::worker
