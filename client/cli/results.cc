#include "client/cli/results.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/cli/option_types.h"
#include "client/cli/values.h"
#include "client/lib/npy.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/scalar.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

absl::Status WriteError(const std::string& path, int error) {
  return Error(
      error == ENOSPC ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument,
      error == ENOSPC ? reason::kDiskFull : reason::kPathUnreadable,
      StrCat("cannot write ", Quoted(path), ": ", std::strerror(error),
             "; the results stay with the job: fetch them with `tandem job results`"));
}

// A file that appears under its name only when it is whole. "-" is stdout.
class OutFile {
 public:
  static absl::StatusOr<OutFile> Create(const std::string& path) {
    OutFile file;
    file.path_ = path;
    if (path == "-") {
      file.stream_ = stdout;
      return file;
    }
    file.part_ = path + ".part";
    file.stream_ = std::fopen(file.part_.c_str(), "wbe");
    if (file.stream_ == nullptr) return WriteError(path, errno);
    return file;
  }
  OutFile(OutFile&& other) noexcept
      : path_(std::move(other.path_)),
        part_(std::move(other.part_)),
        stream_(std::exchange(other.stream_, nullptr)) {}
  OutFile& operator=(OutFile&&) = delete;
  ~OutFile() {
    if (stream_ == nullptr || stream_ == stdout) return;
    std::fclose(stream_);
    std::remove(part_.c_str());
  }

  absl::Status Write(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stream_) != bytes.size())
      return WriteError(path_, errno);
    return absl::OkStatus();
  }
  absl::Status Close() {
    if (stream_ == stdout)
      return std::fflush(stdout) == 0 ? absl::OkStatus() : WriteError(path_, errno);
    std::FILE* const stream = std::exchange(stream_, nullptr);
    if (std::fclose(stream) != 0 || std::rename(part_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      std::remove(part_.c_str());
      return WriteError(path_, error);
    }
    return absl::OkStatus();
  }

 private:
  OutFile() = default;
  std::string path_, part_;
  std::FILE* stream_ = nullptr;
};

const client::OutputInfo* Find(const std::vector<client::OutputInfo>& outputs,
                               std::string_view name) {
  for (const auto& output : outputs) {
    if (output.name == name) return &output;
  }
  return nullptr;
}

// Names for the files of a ragged output: those of the inputs, with .png where PNG came out.
class ItemNames {
 public:
  explicit ItemNames(const std::vector<std::string>& inputs) : inputs_(inputs) {}

  std::string Name(uint64_t task, std::string_view bytes) {
    const bool png = bytes.substr(0, 4) == "\x89PNG";
    fs::path name = task < inputs_.size() ? fs::path(inputs_[task]).filename() : fs::path();
    if (name.empty()) {
      char digits[24];
      std::snprintf(digits, sizeof digits, "%06llu", static_cast<unsigned long long>(task));
      name = digits;
    }
    if (png) name.replace_extension(".png");
    if (!used_.insert(name.string()).second) {  // a.jpg and a.png both became a.png
      name = StrCat(name.stem().string(), ".", task, name.extension().string());
      used_.insert(name.string());
    }
    return name.string();
  }

 private:
  const std::vector<std::string>& inputs_;
  std::set<std::string> used_;
};

// The shape of the selected tasks of an output; the whole of a reduced one.
absl::StatusOr<TensorSpec> SelectedSpec(const client::JobInfo& job,
                                        const client::OutputInfo& output,
                                        const client::TaskSelection& tasks) {
  TensorSpec spec = output.tensor;
  if (tasks.first_task == 0 && tasks.task_count == 0) return spec;
  if (output.reduced || output.split_dim < 0) {
    return InvalidError(
        reason::kBadArgument,
        StrCat("output ", output.name, " is one value of all tasks; leave --tasks out"));
  }
  if (tasks.first_task >= job.task_count || tasks.task_count > job.task_count - tasks.first_task) {
    return Error(absl::StatusCode::kOutOfRange, reason::kBadArgument,
                 StrCat("job ", job.id.value(), " has tasks 0-", job.task_count - 1));
  }
  int64_t& extent = spec.shape[static_cast<size_t>(output.split_dim)];
  extent = extent / static_cast<int64_t>(job.task_count) * static_cast<int64_t>(tasks.task_count);
  return spec;
}

absl::Status WriteItems(client::Client* client, const client::JobInfo& job, const OutTarget& target,
                        const std::vector<std::string>& item_names,
                        const client::TaskSelection& tasks) {
  std::error_code failed;
  fs::create_directories(target.path, failed);
  if (failed) return WriteError(target.path, failed.value());
  ItemNames names(item_names);
  uint64_t next = 0;
  std::vector<uint64_t> failures;
  if (job.tasks_failed > 0) {
    ASSIGN_OR_RETURN(const auto listed, client->Failures(job.id, job.tasks_failed));
    for (const TaskFailure& failure : listed) failures.push_back(failure.task);
  }
  return client->ReadItems(
      job.id, target.output, tasks, [&](uint64_t task, std::string_view bytes) -> absl::Status {
        while (next < failures.size() && failures[next] < task) ++next;
        if (next < failures.size() && failures[next] == task) return absl::OkStatus();
        ASSIGN_OR_RETURN(
            OutFile file,
            OutFile::Create((fs::path(target.path) / names.Name(task, bytes)).string()));
        RETURN_IF_ERROR(file.Write(bytes));
        return file.Close();
      });
}

absl::Status WriteDense(client::Client* client, const client::JobInfo& job,
                        const client::OutputInfo& output, const OutTarget& target,
                        client::TaskSelection tasks) {
  ASSIGN_OR_RETURN(const TensorSpec spec, SelectedSpec(job, output, tasks));
  ASSIGN_OR_RETURN(OutFile file, OutFile::Create(target.path));
  if (target.path.ends_with(".npy")) RETURN_IF_ERROR(file.Write(client::MakeNpyHeader(spec)));
  tasks.failed_as_zero = true;
  RETURN_IF_ERROR(client->ReadOutput(job.id, output.name, tasks,
                                     [&](std::string_view bytes) { return file.Write(bytes); }));
  return file.Close();
}

}  // namespace

absl::StatusOr<OutTarget> ParseOut(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view path = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  if (equals == 0 || (path != "-" && (path.size() < 2 || path[0] != '@'))) {
    return InvalidError(
        reason::kBadArgument,
        StrCat("--out ", Quoted(text), " is none of name=@file.npy, name=@directory/, name=-"));
  }
  OutTarget target;
  target.output = std::string(text.substr(0, equals));
  target.path = std::string(path == "-" ? path : path.substr(1));
  std::error_code failed;
  target.directory = target.path.ends_with('/') || fs::is_directory(target.path, failed);
  return target;
}

absl::StatusOr<client::TaskSelection> ParseTasks(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = Scalar::Parse(text.substr(0, dash), DType::kU64);
  const auto last =
      dash == std::string_view::npos ? first : Scalar::Parse(text.substr(dash + 1), DType::kU64);
  if (!first.ok() || !last.ok() || last->bits() < first->bits() ||
      last->bits() - first->bits() == ~uint64_t{0}) {
    return InvalidError(reason::kBadArgument,
                        StrCat("--tasks ", Quoted(text), " is none of 4, 10-19"));
  }
  return client::TaskSelection{first->bits(), last->bits() - first->bits() + 1};
}

namespace {

// That a file or folder of this name could be made.
absl::Status CheckParent(const std::string& path) {
  fs::path parent = fs::path(path).has_filename() ? fs::path(path).parent_path()
                                                  : fs::path(path).parent_path().parent_path();
  if (parent.empty()) parent = ".";
  std::error_code failed;
  if (!fs::is_directory(parent, failed)) {
    return Error(absl::StatusCode::kNotFound, reason::kPathUnwritable,
                 StrCat("cannot write ", Quoted(path), ": there is no directory ",
                        Quoted(parent.string()), "; make it first"));
  }
  if (access(parent.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnwritable,
               StrCat("cannot write ", Quoted(path), ": ", std::strerror(errno),
                      "; choose a directory that you may write to"));
}

}  // namespace

absl::Status CheckTargets(const std::vector<OutTarget>& targets,
                          const std::vector<client::OutputInfo>& outputs, bool force) {
  for (const OutTarget& target : targets) {
    const client::OutputInfo* output = Find(outputs, target.output);
    if (output == nullptr) {
      std::vector<std::string> names;
      for (const auto& known : outputs) names.push_back(known.name);
      const std::string near = DidYouMean(target.output, names);
      return Error(absl::StatusCode::kNotFound, reason::kOutputNotFound,
                   StrCat("there is no output ", Quoted(target.output), near,
                          near.empty() ? "; " : " ", "there is ", absl::StrJoin(names, ", ")));
    }
    if (output->tensor.ragged() != target.directory) {
      return InvalidError(
          reason::kBadArgument,
          output->tensor.ragged()
              ? StrCat("output ", target.output, " is many items; give a directory: --out ",
                       target.output, "=@", target.path, "/")
              : StrCat("output ", target.output, " is one array; give a file: --out ",
                       target.output, "=@", target.output, ".npy"));
    }
    if (target.path == "-") continue;
    RETURN_IF_ERROR(CheckParent(target.path));
    std::error_code failed;
    const bool taken = target.directory
                           ? fs::exists(target.path, failed) && !fs::is_empty(target.path, failed)
                           : fs::exists(target.path, failed);
    if (taken && !force) {
      return Error(absl::StatusCode::kAlreadyExists, reason::kPathExists,
                   StrCat(Quoted(target.path), " exists; choose another name or add --force"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteTargets(client::Client* client, const client::JobInfo& job,
                          const std::vector<OutTarget>& targets,
                          const std::vector<std::string>& item_names,
                          const client::TaskSelection& tasks) {
  for (const OutTarget& target : targets) {
    const client::OutputInfo* output = Find(job.outputs, target.output);
    if (output == nullptr) continue;  // CheckTargets has said so
    RETURN_IF_ERROR(output->tensor.ragged() ? WriteItems(client, job, target, item_names, tasks)
                                            : WriteDense(client, job, *output, target, tasks));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SmallOutput>> SmallOutputs(client::Client* client,
                                                      const client::JobInfo& job,
                                                      const std::vector<OutTarget>& targets,
                                                      uint64_t elements_max,
                                                      const client::TaskSelection& tasks) {
  std::vector<SmallOutput> small;
  for (const client::OutputInfo& output : job.outputs) {
    const bool is_target = std::any_of(targets.begin(), targets.end(),
                                       [&](const OutTarget& t) { return t.output == output.name; });
    if (is_target || output.tensor.ragged()) continue;
    ASSIGN_OR_RETURN(const TensorSpec spec, SelectedSpec(job, output, tasks));
    const auto elements = spec.Elements();
    if (!elements.ok() || *elements > elements_max) continue;
    std::string bytes;
    client::TaskSelection selected = tasks;
    selected.failed_as_zero = true;
    RETURN_IF_ERROR(client->ReadOutput(job.id, output.name, selected, [&](std::string_view chunk) {
      bytes += chunk;
      return absl::OkStatus();
    }));
    const auto values = ValuesOf(output.tensor.dtype, bytes);
    const bool one = output.tensor.shape.empty() && values.size() == 1;
    small.push_back({output.name, one ? values[0] : values});
  }
  return small;
}

std::string SmallOutputsText(const std::vector<SmallOutput>& outputs) {
  std::string text;
  for (const auto& [name, value] : outputs) StrAppend(&text, name, " = ", ValueText(value), "\n");
  return text;
}

}  // namespace tandem::cli
