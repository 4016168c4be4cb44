#include "worker/executor/kernel_table.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/base/error.h"
#include "common/base/log.h"
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

// Functions that the executor calls without asking again.
absl::Status CheckFunctions(const TandemKernelV1& kernel, const KernelInfo& info) {
  const bool reduces =
      std::any_of(info.signature.outputs().begin(), info.signature.outputs().end(),
                  [](const OutputSig& output) { return output.reduction != Reduction::kNone; });
  const bool complete =
      kernel.range != nullptr &&
      (!reduces || (kernel.partial_bytes != nullptr && kernel.partial_init != nullptr &&
                    kernel.merge != nullptr)) &&
      (!info.host_stages ||
       (kernel.measure != nullptr && kernel.prepare != nullptr && kernel.finish != nullptr));
  if (complete) return absl::OkStatus();
  return InvalidError(reason::kBadFile, StrCat("kernel ", info.name,
                                               " lacks a function that its signature and flags "
                                               "call for; build its library with this SDK again"));
}

}  // namespace

absl::StatusOr<KernelInfo> DescribeKernel(const TandemKernelV1& kernel) {
  if (kernel.struct_bytes < offsetof(TandemKernelV1, work_args_offset) || kernel.name == nullptr ||
      kernel.signature == nullptr) {
    return InvalidError(reason::kBadFile, "a kernel's table is too short or has no name");
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
  if (TANDEM_HAS(&kernel, summary) && kernel.summary != nullptr) info.summary = kernel.summary;
  for (uint32_t i = 0; i < kernel.fault_count && kernel.faults != nullptr; ++i) {
    info.fault_reasons.emplace_back(kernel.faults[i]);
  }
  RETURN_IF_ERROR(CheckFunctions(kernel, info));
  return info;
}

absl::Status KernelTable::Add(const TandemLibraryV1* library) {
  if (library == nullptr || library->abi_major != TANDEM_ABI_MAJOR) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
                 StrCat("a kernel library speaks ABI ", library == nullptr ? 0 : library->abi_major,
                        ", this executor ", TANDEM_ABI_MAJOR, "; build it with this SDK again"));
  }
  for (uint32_t i = 0; i < library->kernel_count; ++i) {
    const TandemKernelV1* kernel = library->kernels[i];
    ASSIGN_OR_RETURN(KernelInfo info, DescribeKernel(*kernel));
    if (!kernels_.emplace(std::pair(info.name, info.content_hash), kernel).second) {
      return Error(absl::StatusCode::kAlreadyExists, reason::kBadFile,
                   StrCat("kernel ", info.identity(), " is there twice; remove one library"));
    }
    infos_.push_back(std::move(info));
  }
  return absl::OkStatus();
}

absl::Status KernelTable::AddLibrary(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return InvalidError(reason::kBadFile, StrCat("cannot load ", path, ": ", dlerror()));
  }
  // Never closed: its tables live as long as the process.
  const auto function =
      reinterpret_cast<TandemLibraryV1Function>(dlsym(handle, TANDEM_LIBRARY_SYMBOL));
  if (function == nullptr) {
    return InvalidError(reason::kBadFile, StrCat(path, " is no library of kernels: it exports no ",
                                                 TANDEM_LIBRARY_SYMBOL));
  }
  const absl::Status added = Add(function());
  return added.ok() ? added : WithContext(added, path);
}

void KernelTable::AddFolders(std::string_view path) {
  for (std::string_view folder : Split(path, ':')) {
    if (folder.empty()) continue;
    std::vector<std::string> files;
    std::error_code error;
    for (std::filesystem::directory_iterator it(std::string(folder), error), end;
         !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name.ends_with(".so") && !name.ends_with(".cuda.so"))
        files.push_back(it->path().string());
    }
    if (error) {
      TLOG(Warning, "kernel_folder_unreadable", "folder", folder, "why", error.message());
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) {
      if (const absl::Status status = AddLibrary(file); !status.ok()) {
        TLOG(Warning, "kernel_library_refused", "file", file, "why", ToStd(status.message()));
      }
    }
  }
}

absl::StatusOr<const TandemKernelV1*> KernelTable::Find(std::string_view name,
                                                        uint64_t hash) const {
  const auto first = kernels_.lower_bound(std::pair(std::string(name), uint64_t{0}));
  if (first == kernels_.end() || first->first.first != name) {
    return Error(absl::StatusCode::kNotFound, reason::kUnknownKernel,
                 StrCat("this executor has no kernel ", Quoted(name),
                        "; put its library into the worker's kernel folders"));
  }
  if (hash == 0) return first->second;
  const auto it = kernels_.find(std::pair(std::string(name), hash));
  if (it != kernels_.end()) return it->second;
  return Error(absl::StatusCode::kFailedPrecondition, reason::kKernelChanged,
               StrCat("kernel ", name, " has another content here than the job insists on (",
                      ToHex(&hash, sizeof(hash)), "); install the same library on every worker"));
}

}  // namespace tandem::worker
