#include "master/server/output_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/file_source.h"
#include "common/wire/lease_messages.h"
#include "master/server/output_gaps.h"
#include "master/server/output_source.h"
#include "master/server/row_cursor.h"
#include "master/server/timestamps.h"
#include "master/store/page_token.h"

namespace tandem::master {
namespace {

// A page ends when it has grown to this: no message is over 4 MiB, and a piece may hold 1 MiB.
constexpr size_t kPageBytesMax = 1 << 20;

// Bytes that a row holds inline.
class InlineSource final : public ByteSource {
 public:
  explicit InlineSource(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    const size_t size = bytes_.copy(buffer.data(), buffer.size(), read_);
    read_ += size;
    return size;
  }

 private:
  const std::string bytes_;
  size_t read_ = 0;
};

struct TaskSpan {
  uint64_t first = 0;
  uint64_t count = 0;
};

absl::StatusOr<TaskSpan> SpanOf(const BoundJob& job, uint64_t first, uint64_t count) {
  if (first > job.task_count() || count > job.task_count() - first) {
    return Error(absl::StatusCode::kOutOfRange, reason::kBadArgument,
                 StrCat("tasks [", first, ", ", first, " + ", count, ") lie outside of the job's ",
                        job.task_count()));
  }
  return TaskSpan{first, count == 0 ? job.task_count() - first : count};
}

// Calls `then` when the job that it watches has ended, unless it was dropped before.
class EndWaiter final : public JobWatcher {
 public:
  explicit EndWaiter(std::function<void()> then) : then_(std::move(then)) {}
  void Offer(const JobView& view) override {
    if (HasEnded(view.status.state)) Fire();
  }
  void Fire() {
    if (const std::function<void()> then = Take()) then();
  }
  void Drop() { (void)Take(); }

 private:
  std::function<void()> Take() {
    absl::MutexLock lock(&mu_);
    return std::exchange(then_, nullptr);
  }
  absl::Mutex mu_;
  std::function<void()> then_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<OutputReader::Found> OutputReader::Find(std::string_view owner, uint64_t job,
                                                       const std::string& output) const {
  Found found;
  absl::StatusOr<JobView> view = finder_->Find(JobId(job), owner);
  if (!view.ok()) return WithField(view.status(), "job");
  found.view = *std::move(view);
  if (!finder_->Kept(JobId(job))) {
    return WithField(Error(absl::StatusCode::kNotFound, reason::kJobDeleted,
                           StrCat("the results of job ", job,
                                  " were deleted: by `tandem job rm`, or because it ended too long "
                                  "ago, or too many ended after it. Run it again, or keep more "
                                  "(tandem-master --retention, --keep-jobs)")),
                     "job");
  }
  const std::vector<BoundOutput>& outputs = found.view.bound().outputs;
  const auto it = std::ranges::find(outputs, output, &BoundOutput::name);
  if (it == outputs.end()) {
    std::vector<std::string_view> names;
    for (const BoundOutput& each : outputs) names.push_back(each.name);
    const std::string_view nearest = Nearest(output, names);
    return WithField(Error(absl::StatusCode::kNotFound, reason::kOutputNotFound,
                           StrCat("job ", job, " has no output ", Quoted(output),
                                  nearest.empty() ? "" : StrCat("; did you mean ", nearest, "?"))),
                     "output");
  }
  found.output = static_cast<uint32_t>(it - outputs.begin());
  return found;
}

absl::Status OutputReader::CheckFailures(const Found& found, uint64_t first_task,
                                         uint64_t task_count) const {
  if (found.view.status.tasks_failed == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const FailurePage page,
                   store_->FailuresOf(found.view.status.job, 1, ToPageToken({first_task, 0})));
  if (page.rows.empty() || page.rows.front().failure.task - first_task >= task_count) {
    return absl::OkStatus();
  }
  const TaskFailure& failure = page.rows.front().failure;
  return Error(
      absl::StatusCode::kFailedPrecondition, reason::kTaskFailed,
      StrCat("job ", found.view.status.job, ": task ", failure.task, " failed: ", failure.reason,
             "; read with failed_as_zero to have zeros in the place of failed tasks"));
}

absl::StatusOr<std::unique_ptr<ByteSource>> OutputReader::OpenReduced(const Found& found) {
  const JobView& view = found.view;
  RETURN_IF_ERROR(CheckReducible(view));
  ASSIGN_OR_RETURN(OutputPage page, store_->OutputsOf(view.status.job, found.output, 0, 1));
  if (page.rows.empty()) return NotReady(view.status.job, "its result was deleted");
  OutputRow& row = page.rows.back();
  if (auto* bytes = std::get_if<std::string>(&row.where)) {
    return std::unique_ptr<ByteSource>(std::make_unique<InlineSource>(std::move(*bytes)));
  }
  return MakeRegionSource(segments_, std::get<Region>(row.where));
}

absl::StatusOr<std::unique_ptr<ByteSource>> OutputReader::OpenOutput(
    std::string_view owner, const v1::ReadOutputRequest& request) {
  ASSIGN_OR_RETURN(const Found found, Find(owner, request.job(), request.output()));
  const BoundOutput& output = found.bound();
  if (output.reduced()) {
    if (request.first_task() == 0 && request.task_count() == 0) return OpenReduced(found);
    return WithField(
        InvalidError(reason::kBadArgument,
                     StrCat("output ", output.name,
                            " is reduced over all tasks: no range of them can be read")),
        "first_task");
  }
  if (output.kind == BoundOutput::Kind::kRaggedConcat) {
    return WithField(
        InvalidError(reason::kBadArgument,
                     StrCat("output ", output.name, " is ragged: list its pieces with ListOutput")),
        "output");
  }
  ASSIGN_OR_RETURN(const TaskSpan tasks,
                   SpanOf(found.view.bound(), request.first_task(), request.task_count()));
  if (!request.failed_as_zero()) RETURN_IF_ERROR(CheckFailures(found, tasks.first, tasks.count));
  return MakeOutputSource(store_, segments_, output,
                          {found.view.status.job, found.output, tasks.first, tasks.count},
                          GapsOf(store_, found.view, found.output, request.failed_as_zero()));
}

ChunkStream::Withdraw OutputReader::WhenEnded(std::string_view owner, uint64_t job,
                                              std::function<void()> then) {
  const JobId id(job);
  const std::optional<JobView> view = board_->Find(id);
  if (!view || view->bound().spec.owner != owner) {
    then();
    return nullptr;
  }
  const auto waiter = std::make_shared<EndWaiter>(std::move(then));
  const std::optional<JobView> present = board_->Watch(id, waiter);
  if (!present) {
    waiter->Fire();  // Deleted in between.
  } else {
    waiter->Offer(*present);
  }
  return [board = board_, id, waiter] {
    waiter->Drop();
    board->Unwatch(id, waiter.get());
  };
}

absl::Status OutputReader::ListOutput(std::string_view owner, const v1::ListOutputRequest& request,
                                      v1::ListOutputResponse* response) {
  ASSIGN_OR_RETURN(const Found found, Find(owner, request.job(), request.output()));
  if (request.page_size() > kPageSizeMax) {
    return WithField(
        InvalidError(reason::kLimitExceeded,
                     StrCat("page_size is ", request.page_size(), "; at most ", kPageSizeMax)),
        "page_size");
  }
  const auto page_size =
      static_cast<int>(request.page_size() == 0 ? kPageSizeMax : request.page_size());
  uint64_t first = request.first_task();
  const std::string& token = request.page_token();
  if (!token.empty()) {
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), first);
    if (error != std::errc() || end != token.data() + token.size()) {
      return WithField(
          InvalidError(reason::kBadPageToken, "the page token is not one that this call gave out"),
          "page_token");
    }
  }
  ASSIGN_OR_RETURN(const TaskSpan tasks, SpanOf(found.view.bound(), first, 0));
  RowCursor cursor(store_, found.view.status.job, found.output, tasks.first, tasks.count);
  size_t bytes = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<RowRun> run, cursor.Next());
    if (!run) return absl::OkStatus();
    if (run->row == nullptr) continue;
    if (response->runs_size() == page_size || bytes > kPageBytesMax) {
      response->set_next_page_token(std::to_string(run->first_task));
      return absl::OkStatus();
    }
    v1::OutputRun* to = response->add_runs();
    to->set_first_task(run->first_task);
    to->set_task_count(run->task_count);
    to->set_skip_tasks(run->skip_tasks);
    to->set_piece_tasks(run->row->piece_tasks);
    wire::Encode(OutputPiece{found.output, run->row->where}, to->mutable_piece());
    bytes += to->ByteSizeLong();
  }
}

}  // namespace tandem::master
