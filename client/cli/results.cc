#include "client/cli/results.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/cli/out_file.h"
#include "client/cli/values.h"
#include "client/lib/npy.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"
#include "common/model/scalar.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

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
    if (name.empty() || name == "." || name == "..") {
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
                 job.task_count == 0
                     ? StrCat("job ", job.id.value(), " has no tasks")
                     : StrCat("job ", job.id.value(), " has tasks 0-", job.task_count - 1));
  }
  int64_t& extent = spec.shape[static_cast<size_t>(output.split_dim)];
  extent = extent / static_cast<int64_t>(job.task_count) * static_cast<int64_t>(tasks.task_count);
  return spec;
}

// That each of the selected tasks of a job that is not done, or never will be, has an item or has
// failed. (Dense outputs are checked where they are read.)
absl::Status CheckItemsThere(client::Client* client, const client::JobInfo& job,
                             const std::string& output, const client::TaskSelection& tasks,
                             const std::vector<uint64_t>& failures) {
  if (job.tasks_done >= job.task_count) return absl::OkStatus();
  const uint64_t end = tasks.task_count == 0 ? job.task_count : tasks.first_task + tasks.task_count;
  uint64_t at = tasks.first_task;
  for (uint64_t before = ~uint64_t{0}; at != before && at < end;) {
    before = at;
    ASSIGN_OR_RETURN(at, client->DoneUntil(job.id, output, at));
    while (std::binary_search(failures.begin(), failures.end(), at)) ++at;
  }
  if (at >= end) return absl::OkStatus();
  const std::string what =
      StrCat("job ", job.id.value(), ": task ", at, " has no item of ", output);
  const std::string remedy = at == tasks.first_task ? ""
                                                    : StrCat("; read those before it with --tasks ",
                                                             tasks.first_task, "-", at - 1);
  if (!HasEnded(job.state)) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kResultNotReady,
                 StrCat(what, ": it is not done yet; wait for the job",
                        remedy.empty() ? "" : ", or", remedy.empty() ? "" : remedy.substr(1)));
  }
  const bool cancelled = job.state == client::JobState::kCancelled;
  return Error(absl::StatusCode::kFailedPrecondition,
               cancelled ? reason::kJobCancelled : reason::kJobFailed,
               StrCat(what, ": the job ", cancelled ? "was cancelled" : "failed",
                      " before all tasks had run", remedy));
}

absl::Status WriteItems(client::Client* client, const client::JobInfo& job,
                        const client::OutputInfo& output, const OutTarget& target,
                        const std::vector<std::string>& item_names,
                        const client::TaskSelection& tasks) {
  RETURN_IF_ERROR(SelectedSpec(job, output, tasks).status());
  std::vector<uint64_t> failures;
  if (job.tasks_failed > 0) {
    ASSIGN_OR_RETURN(const auto listed, client->Failures(job.id, job.tasks_failed));
    for (const TaskFailure& failure : listed) failures.push_back(failure.task);
  }
  RETURN_IF_ERROR(CheckItemsThere(client, job, target.output, tasks, failures));
  std::error_code failed;
  fs::create_directory(target.path, failed);
  if (failed) {
    return InvalidError(
        reason::kPathUnwritable,
        StrCat("cannot make the directory ", Quoted(target.path), ": ", failed.message()));
  }
  ItemNames names(item_names);
  uint64_t next = 0;
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
  std::string_view path = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  const bool shared = path.starts_with("path:");
  path.remove_prefix(shared ? 5 : path.starts_with('@') ? 1 : path == "-" ? 0 : path.size());
  if (equals == 0 || path.empty()) {
    return InvalidError(reason::kBadArgument, StrCat("--out ", Quoted(text),
                                                     " is none of name=@file.npy, "
                                                     "name=@directory/, name=path:/shared/x, "
                                                     "name=-"));
  }
  if (shared && path[0] != '/') {
    return InvalidError(reason::kBadArgument, StrCat("--out ", Quoted(text),
                                                     ": behind path: stands an absolute path, "
                                                     "the same on every server"));
  }
  OutTarget target;
  target.output = std::string(text.substr(0, equals));
  target.path = std::string(path);
  std::error_code failed;
  target.directory = target.path.ends_with('/') || fs::is_directory(target.path, failed);
  return target;
}

absl::StatusOr<client::TaskSelection> ParseTasks(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = Scalar::Parse(text.substr(0, dash), DType::kU64);
  const auto last =
      dash == std::string_view::npos ? first : Scalar::Parse(text.substr(dash + 1), DType::kU64);
  if (first.ok() && last.ok() && last->bits() < first->bits()) {
    return InvalidError(reason::kBadArgument, StrCat("--tasks ", Quoted(text),
                                                     ": the end comes before the beginning; give ",
                                                     last->ToString(), "-", first->ToString()));
  }
  if (!first.ok() || !last.ok() || last->bits() - first->bits() == ~uint64_t{0}) {
    return InvalidError(reason::kBadArgument,
                        StrCat("--tasks ", Quoted(text), " is none of 4, 10-19"));
  }
  return client::TaskSelection{first->bits(), last->bits() - first->bits() + 1};
}

namespace {

// That the output fits the kind of place.
absl::Status CheckKind(const client::OutputInfo& output, const OutTarget& target) {
  if (output.tensor.ragged() == target.directory) return absl::OkStatus();
  const std::string stem = target.path == "-" ? target.output : target.path;
  return InvalidError(
      reason::kBadArgument,
      output.tensor.ragged()
          ? StrCat("output ", target.output, " is many items; give a directory: --out ",
                   target.output, "=@", stem, "/")
          : StrCat("output ", target.output, " is one array; give a file: --out ", target.output,
                   "=@", target.output, ".npy"));
}

// That no two outputs go to one place.
absl::Status CheckDistinct(const std::vector<OutTarget>& targets) {
  std::set<std::string> seen;
  for (const OutTarget& target : targets) {
    std::error_code failed;
    const std::string path = target.path == "-"
                                 ? target.path
                                 : fs::weakly_canonical(fs::absolute(target.path), failed).string();
    if (seen.insert(path).second) continue;
    return InvalidError(reason::kBadArgument,
                        StrCat("two outputs go to ", Quoted(target.path), "; give each its own"));
  }
  return absl::OkStatus();
}

// "; the results stay with the job: …" for what could not be written here.
absl::Status WithRemedy(const absl::Status& status, const client::JobInfo& job,
                        const std::vector<OutTarget>& targets, size_t from) {
  const std::string token = ReasonOf(status);
  if (token != reason::kDiskFull && token != reason::kPathUnwritable &&
      token != reason::kInterrupted) {
    return status;
  }
  std::string command = StrCat("tandem job results ", job.id.value());
  for (size_t i = from; i < targets.size(); ++i) {
    StrAppend(&command, " --out ", targets[i].output, "=", targets[i].path == "-" ? "" : "@",
              targets[i].path);
  }
  if (targets[from].directory) command += " --force";
  return Error(status.code(), token,
               StrCat(ToStd(status.message()),
                      "; the results stay with the job, fetch them again with `", command, "`"));
}

}  // namespace

absl::Status CheckTargets(const std::vector<OutTarget>& targets,
                          const std::vector<client::OutputInfo>& outputs, bool force) {
  RETURN_IF_ERROR(CheckDistinct(targets));
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
    RETURN_IF_ERROR(CheckKind(*output, target));
    RETURN_IF_ERROR(target.directory
                        ? CheckOutDirectory(target.path, force)
                        : CheckOutFile(target.path, output->tensor.Bytes().value_or(0), force));
  }
  return absl::OkStatus();
}

absl::Status WriteTargets(client::Client* client, const client::JobInfo& job,
                          const std::vector<OutTarget>& targets,
                          const std::vector<std::string>& item_names,
                          const client::TaskSelection& tasks) {
  for (size_t i = 0; i < targets.size(); ++i) {
    const client::OutputInfo* output = Find(job.outputs, targets[i].output);
    if (output == nullptr) continue;  // CheckTargets has said so
    const absl::Status status =
        output->tensor.ragged() ? WriteItems(client, job, *output, targets[i], item_names, tasks)
                                : WriteDense(client, job, *output, targets[i], tasks);
    if (!status.ok()) return WithRemedy(status, job, targets, i);
  }
  return absl::OkStatus();
}

bool HasStdout(const std::vector<OutTarget>& targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [](const OutTarget& target) { return target.path == "-"; });
}

std::vector<std::string> ItemNamesOf(const client::JobInfo& job) {
  for (const auto& [name, operand] : job.spec.operands) {
    if (!operand.item_names.empty()) return operand.item_names;
  }
  return {};
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

std::string LeftBehind(const client::JobInfo& job, const std::vector<OutTarget>& targets,
                       const std::vector<SmallOutput>& small) {
  std::string names, command;
  for (const client::OutputInfo& output : job.outputs) {
    const auto same = [&](const auto& other) { return other == output.name; };
    const auto target_of = [&](const OutTarget& target) { return same(target.output); };
    const auto small_of = [&](const SmallOutput& one) { return same(one.name); };
    if (std::any_of(targets.begin(), targets.end(), target_of)) continue;
    if (std::any_of(small.begin(), small.end(), small_of)) continue;
    StrAppend(&names, names.empty() ? "" : ", ", output.name, " ", output.tensor.ToString());
    StrAppend(&command, " --out ", output.name, "=@", output.name,
              output.tensor.ragged() ? "/" : ".npy");
  }
  if (names.empty()) return "";
  return StrCat("not shown: ", names, "; fetch with `tandem job results ", job.id.value(), command,
                "`\n");
}

nlohmann::ordered_json SmallOutputsJson(const std::vector<SmallOutput>& outputs) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const auto& [name, value] : outputs) values[name] = value;
  return values;
}

std::string SmallOutputsText(const std::vector<SmallOutput>& outputs) {
  std::string text;
  for (const auto& [name, value] : outputs) StrAppend(&text, name, " = ", ValueText(value), "\n");
  return text;
}

}  // namespace tandem::cli
