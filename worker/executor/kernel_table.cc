#include "worker/executor/kernel_table.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

std::vector<std::string> SplitAxes(const char* text) {
  std::vector<std::string> axes;
  if (text == nullptr) return axes;
  for (std::string_view axis : Split(text, ' ')) {
    if (!axis.empty()) axes.emplace_back(axis);
  }
  return axes;
}

std::string Abi() { return StrCat(TANDEM_ABI_MAJOR, ".", TANDEM_ABI_MINOR); }
// What the first release of the ABI had; later ones only append.
constexpr size_t kKernelBytesMin = offsetof(TandemKernelV1, summary) + sizeof(const char*);
constexpr uint32_t kFaultsMax = TANDEM_FAULT_OUT_OF_MEMORY;  // the SDK's own begin there
constexpr size_t kLibraryBytesMin = offsetof(TandemLibraryV1, isa) + sizeof(const char*);

constexpr std::string_view kBaselineIsa = "x86-64-v2";

// A library picks its build by the environment each time that it is asked.
const TandemLibraryV1* BaselineOf(TandemLibraryV1Function function) {
  constexpr char kVariable[] = "TANDEM_ISA";
  const char* const set = getenv(kVariable);
  const std::optional<std::string> before =
      set == nullptr ? std::nullopt : std::optional<std::string>(set);
  setenv(kVariable, "v2", 1);
  const TandemLibraryV1* const baseline = function();
  before.has_value() ? setenv(kVariable, before->c_str(), 1) : unsetenv(kVariable);
  return baseline;
}

absl::Status CheckLibrary(const TandemLibraryV1* library) {
  if (library == nullptr) {
    return Error(
        absl::StatusCode::kFailedPrecondition, reason::kUnsatisfiable,
        "it has no build for this machine's instruction set, or for the one that TANDEM_ISA "
        "asks for; x86-64-v2 is the least");
  }
  if (library->abi_major != TANDEM_ABI_MAJOR) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
                 StrCat("it speaks kernel ABI ", library->abi_major, ".", library->abi_minor,
                        ", this executor ", Abi(), "; build it with this Tandem's SDK again"));
  }
  if (library->struct_bytes < kLibraryBytesMin || library->kernels == nullptr ||
      library->kernel_count > KernelTable::kKernelsMax) {
    return InvalidError(
        reason::kBadFile,
        StrCat("its table makes no sense (", library->struct_bytes, " bytes, ABI ", Abi(),
               " has at least ", kLibraryBytesMin, "; ", library->kernel_count,
               " kernels, at most ", KernelTable::kKernelsMax, "); build it with this SDK again"));
  }
  return absl::OkStatus();
}

// Functions that the executor calls without asking again.
absl::Status CheckFunctions(const TandemKernelV1& kernel, const KernelInfo& info, KernelForm form) {
  const bool reduces =
      std::any_of(info.signature.outputs().begin(), info.signature.outputs().end(),
                  [](const OutputSig& output) { return output.reduction != Reduction::kNone; });
  const bool complete =
      (form == KernelForm::kHost ? kernel.range != nullptr : kernel.launch != nullptr) &&
      (!reduces || (kernel.partial_bytes != nullptr && kernel.partial_init != nullptr &&
                    kernel.merge != nullptr)) &&
      (!info.host_stages ||
       (kernel.measure != nullptr && kernel.prepare != nullptr && kernel.finish != nullptr));
  if (!complete) {
    return InvalidError(reason::kBadFile,
                        StrCat("kernel ", info.name,
                               " lacks a function that its signature and flags "
                               "call for; build its library with this SDK again"));
  }
  const bool merges =
      std::any_of(info.signature.outputs().begin(), info.signature.outputs().end(),
                  [](const OutputSig& output) { return output.reduction == Reduction::kMerge; });
  if (merges != ((kernel.flags & TANDEM_OWN_MERGE) != 0)) {
    return InvalidError(reason::kBadFile,
                        StrCat("kernel ", info.name, merges ? " has" : " has no",
                               " output with a merge of its own, but its flags say otherwise; "
                               "build its library with this SDK again"));
  }
  return absl::OkStatus();
}

// "/opt/kernels/wave.cuda.so" of "/opt/kernels/wave.so"
std::string CudaHalfOf(const std::string& path) {
  std::filesystem::path half = path;
  half.replace_extension(".cuda.so");
  return half.string();
}

}  // namespace

absl::StatusOr<KernelInfo> DescribeKernel(const TandemKernelV1& kernel, KernelForm form) {
  if (kernel.struct_bytes < kKernelBytesMin) {
    return InvalidError(
        reason::kBadFile,
        StrCat("the table of a kernel has ", kernel.struct_bytes, " bytes, in ABI ", Abi(),
               " it has at least ", kKernelBytesMin, "; build the library with this SDK again"));
  }
  if (kernel.name == nullptr || kernel.signature == nullptr) {
    return InvalidError(reason::kBadFile, "a kernel has no name or no signature");
  }
  if (const auto ref = ParseKernelRef(kernel.name); !ref.ok() || ref->content_hash != 0) {
    return InvalidError(reason::kBadFile, StrCat("a kernel cannot be named ", Quoted(kernel.name),
                                                 "; use letters, digits and _, no digit first"));
  }
  KernelInfo info;
  info.name = kernel.name;
  absl::StatusOr<Signature> signature = Signature::Parse(kernel.signature);
  if (!signature.ok()) return WithContext(signature.status(), StrCat("kernel ", info.name));
  info.signature = *std::move(signature);
  info.content_hash = kernel.content_hash;
  info.output_class = kernel.output_class <= TANDEM_CLASS_TOLERANT
                          ? static_cast<OutputClass>(kernel.output_class)
                          : OutputClass::kUnspecified;
  info.tolerance = kernel.tolerance;
  info.split_axes = SplitAxes(kernel.split_axes);
  info.cost.ns_per_unit = kernel.cost_ns;
  info.cost.units = kernel.cost_units == nullptr ? "" : kernel.cost_units;
  info.cost.grain = kernel.grain > 0 ? static_cast<uint64_t>(kernel.grain) : 0;
  info.whole_leaf = (kernel.flags & TANDEM_WHOLE_LEAF) != 0;
  info.host_stages = (kernel.flags & TANDEM_HOST_STAGES) != 0;
  if (kernel.summary != nullptr) info.summary = kernel.summary;
  const uint32_t faults = kernel.faults == nullptr ? 0 : std::min(kernel.fault_count, kFaultsMax);
  for (uint32_t i = 0; i < faults; ++i) {
    info.fault_reasons.emplace_back(kernel.faults[i] == nullptr ? "" : kernel.faults[i]);
  }
  RETURN_IF_ERROR(CheckFunctions(kernel, info, form));
  return info;
}

absl::Status KernelTable::Add(const TandemLibraryV1* library, const TandemLibraryV1* baseline) {
  RETURN_IF_ERROR(CheckLibrary(library));
  std::vector<KernelInfo> infos;
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    if (library->kernels[i] == nullptr) {
      return InvalidError(reason::kBadFile, StrCat("its kernel ", i, " has no table"));
    }
    ASSIGN_OR_RETURN(KernelInfo info, DescribeKernel(*library->kernels[i], form_));
    const auto same = [&info](const KernelInfo& known) { return known.name == info.name; };
    if (std::ranges::any_of(infos_, same) || std::ranges::any_of(infos, same)) {
      return Error(absl::StatusCode::kAlreadyExists, reason::kBadFile,
                   StrCat("a kernel named ", info.name,
                          " is there already; give this one another name, or leave one out"));
    }
    infos.push_back(std::move(info));
  }
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    kernels_.emplace(std::pair(infos[i].name, infos[i].content_hash), library->kernels[i]);
  }
  std::ranges::move(infos, std::back_inserter(infos_));
  AddBaseline(baseline);
  return absl::OkStatus();
}

// What makes no sense or is another kernel is left out: only pinned jobs miss it, and say so.
void KernelTable::AddBaseline(const TandemLibraryV1* library) {
  if (!CheckLibrary(library).ok() || library->isa == nullptr ||
      std::string_view(library->isa) != kBaselineIsa) {
    return;
  }
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    if (library->kernels[i] == nullptr) continue;
    const absl::StatusOr<KernelInfo> info = DescribeKernel(*library->kernels[i]);
    if (!info.ok() || std::ranges::find(infos_, *info) == infos_.end()) continue;
    baseline_.emplace(std::pair(info->name, info->content_hash), library->kernels[i]);
  }
}

absl::Status KernelTable::AddLibrary(const std::string& named) {
  const std::string path = form_ == KernelForm::kHost ? named : CudaHalfOf(named);
  std::error_code ignored;
  if (form_ == KernelForm::kCuda && !std::filesystem::exists(path, ignored)) {
    return absl::OkStatus();
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return InvalidError(reason::kBadFile, StrCat("cannot load ", path, ": ", dlerror()));
  }
  // Never closed: its tables live as long as the process.
  const auto function =
      reinterpret_cast<TandemLibraryV1Function>(dlsym(handle, TANDEM_LIBRARY_SYMBOL));
  if (function == nullptr) {
    return InvalidError(reason::kBadFile,
                        StrCat(path, " is no library of kernels: it exports no ",
                               TANDEM_LIBRARY_SYMBOL, "; build it with tandem_add_kernels"));
  }
  const TandemLibraryV1* const best = function();
  const absl::Status added = Add(best, BaselineOf(function));
  return added.ok() ? added : WithContext(added, path);
}

absl::StatusOr<const TandemKernelV1*> KernelTable::FindBaseline(std::string_view name,
                                                                uint64_t hash) const {
  RETURN_IF_ERROR(Find(name, hash).status());
  const auto it = baseline_.find(std::pair(std::string(name), hash));
  if (it != baseline_.end()) return it->second;
  return Error(absl::StatusCode::kFailedPrecondition, reason::kUnsatisfiable,
               StrCat("the library of kernel ", name, " has no build for ", kBaselineIsa,
                      " here, by which a reproducible job of class tolerant runs; build it with "
                      "tandem_add_kernels, or leave --reproducible out"));
}

absl::StatusOr<const TandemKernelV1*> KernelTable::Find(std::string_view name,
                                                        uint64_t hash) const {
  const auto first = kernels_.lower_bound(std::pair(std::string(name), uint64_t{0}));
  if (first == kernels_.end() || first->first.first != name) {
    return Error(absl::StatusCode::kNotFound, reason::kUnknownKernel,
                 StrCat("this executor has no kernel ", Quoted(name),
                        "; start its worker with --kernel-path and the library"));
  }
  if (hash == 0) return first->second;
  const auto it = kernels_.find(std::pair(std::string(name), hash));
  if (it != kernels_.end()) return it->second;
  return Error(absl::StatusCode::kFailedPrecondition, reason::kKernelChanged,
               StrCat("kernel ", name, " has another content here than the job insists on (",
                      ToHex(&hash, sizeof(hash)), "); install the same library on every worker"));
}

}  // namespace tandem::worker
