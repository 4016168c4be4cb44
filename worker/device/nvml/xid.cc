#include "worker/device/nvml/xid.h"

#include "common/base/strings.h"

namespace tandem::worker {
namespace {

struct Xid {
  uint64_t number;
  XidMeaning meaning;
  const char* what;
};

constexpr const char* kUnknown = "see NVIDIA's list of Xid errors, and dmesg";
constexpr Xid kXids[] = {
    {13, XidMeaning::kApplication, "a kernel raised an exception in the graphics engine"},
    {31, XidMeaning::kApplication, "a kernel touched memory that it may not"},
    {43, XidMeaning::kApplication, "a kernel's process was reset after a fault of its own"},
    {45, XidMeaning::kApplication, "a process was ended and its work cleaned up"},
    {46, XidMeaning::kOutOfService,
     "the GPU stopped processing; drain it and reset it: nvidia-smi --gpu-reset"},
    {48, XidMeaning::kOutOfService,
     "a double-bit memory error; drain it and reset it: nvidia-smi --gpu-reset"},
    {64, XidMeaning::kOutOfService,
     "a row of memory could not be remapped; reset it, and have it replaced if that happens again"},
    {68, XidMeaning::kApplication, "the video processor raised an exception"},
    {79, XidMeaning::kOutOfService,
     "the GPU has fallen off the bus; reboot, and reseat it if that happens again"},
    {95, XidMeaning::kOutOfService,
     "a memory error that was not contained; reset it: nvidia-smi --gpu-reset"},
    {109, XidMeaning::kApplication, "a kernel's context switch timed out"},
    {119, XidMeaning::kOutOfService,
     "the GPU's system processor does not answer; reset it, or reboot"},
    {120, XidMeaning::kOutOfService, "the GPU's system processor failed; reset it, or reboot"},
};

const Xid* Find(uint64_t number) {
  for (const Xid& xid : kXids) {
    if (xid.number == number) return &xid;
  }
  return nullptr;
}

}  // namespace

XidMeaning MeaningOfXid(uint64_t xid) {
  const Xid* const known = Find(xid);
  return known == nullptr ? XidMeaning::kNoted : known->meaning;
}

std::string DescribeXid(uint64_t xid) {
  const Xid* const known = Find(xid);
  return StrCat("Xid ", xid, ": ", known == nullptr ? kUnknown : known->what);
}

}  // namespace tandem::worker
