#include "worker/executor/piece.h"

#include <algorithm>
#include <cstring>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/job_order.h"

namespace tandem::worker {
namespace {

constexpr char kGivenUp[] =
    "CRASH_LIMIT: the task was running when its executor was lost too often";

// More fault bytes than this are cleared on the lane.
constexpr uint64_t kClearHereBytes = 16 << 10;

Plan PlanOf(const executor::v1::RunPiece& run, const BoundJob& job) {
  const LeafRange leaves = {run.first_leaf(), run.first_leaf() + run.leaf_count()};
  return PlanRange(job, job.tree.Tasks(leaves));
}

// The kernel's text, or the SDK's own.
std::string FaultText(const KernelInfo& kernel, uint8_t fault) {
  if (fault < kernel.fault_reasons.size()) return kernel.fault_reasons[fault];
  if (fault == TANDEM_FAULT_OUT_OF_MEMORY) {
    return StrCat(reason::kOutOfMemory, ": the item needs more memory than there is");
  }
  if (fault == TANDEM_FAULT_INTERNAL) {
    return StrCat(reason::kInternal,
                  ": a host stage of the kernel ended in an exception, or its output was refused");
  }
  return kernel.FaultReason(fault);
}

}  // namespace

Piece::Piece(const executor::v1::RunPiece& run, Job* job, uint32_t lanes)
    : run_(run), job_(job), lane_(run.group() % lanes), plan_(PlanOf(run, job->bound())) {
  for (const uint64_t task : run.skip_tasks()) {
    if (task >= plan_.tasks.begin && task < plan_.tasks.end) skip_.push_back(task);
  }
  std::sort(skip_.begin(), skip_.end());
  skip_.erase(std::unique(skip_.begin(), skip_.end()), skip_.end());
  skip_reason_.assign(skip_.size(), kGivenUp);
}

Piece::~Piece() {
  if (pool_ != nullptr) pool_->Give(std::move(faults_));
}

bool Piece::Settle() {
  bool settled = true;
  for (size_t i = 0; i < plan_.operands.size(); ++i) {
    views_.push_back(job_->readers()[i]->View(plan_.operands[i]));
    settled = views_.back()->Settle() && settled;
  }
  if (settled) TakeItemFaults();
  return settled;
}

absl::Status Piece::Wait() {
  for (size_t i = 0; i < views_.size(); ++i) {
    if (views_[i]->Settle()) continue;
    if (absl::Status status = views_[i]->Wait(); !status.ok()) {
      return WithContext(status, StrCat("operand ", job_->bound().operands[i].name));
    }
  }
  TakeItemFaults();
  return absl::OkStatus();
}

// Items that cannot be had fail their tasks alone.
void Piece::TakeItemFaults() {
  for (size_t i = 0; i < views_.size(); ++i) {
    if (!job_->bound().operands[i].sliced) continue;
    for (const ItemFault& fault : views_[i]->faults()) {
      const auto at = std::lower_bound(skip_.begin(), skip_.end(), fault.index);
      if (at != skip_.end() && *at == fault.index) continue;
      skip_reason_.insert(skip_reason_.begin() + (at - skip_.begin()), fault.reason);
      skip_.insert(at, fault.index);
    }
  }
}

uint64_t Piece::DenseBytes() const {
  uint64_t bytes = 0;
  for (const OutputPart& part : plan_.outputs) {
    if (part.kind == OutputPart::Kind::kPlaced) bytes += part.bytes;
  }
  return bytes;
}

absl::Status Piece::AllocateOutputs(OutputStore* store, BufferPool* pool,
                                    std::vector<void*>* pointers) {
  const uint64_t inline_max = DenseBytes() <= run_.inline_bytes_max() ? run_.inline_bytes_max() : 0;
  pointers->assign(plan_.outputs.size(), nullptr);
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputPart& part = plan_.outputs[i];
    const auto output = static_cast<uint32_t>(i);
    if (part.kind == OutputPart::Kind::kItems) {
      ragged_.emplace_back(output, std::make_unique<RaggedOutput>(plan_.tasks.size()));
      (*pointers)[i] = const_cast<TandemSink*>(ragged_.back().second->sinks());
    } else if (part.kind == OutputPart::Kind::kPlaced) {
      ASSIGN_OR_RETURN(OutputSlot slot, store->Make(output, part.bytes, inline_max));
      // What is not run must not show what the memory held before.
      if (!skip_.empty() && part.bytes > 0) std::memset(slot.data(), 0, part.bytes);
      slots_.push_back(std::move(slot));
      (*pointers)[i] = slots_.back().data();
    }
  }
  if (!job_->reduces() || job_->accumulates()) return absl::OkStatus();
  collects_ = !job_->ordered();
  ASSIGN_OR_RETURN(partial_, PartialOutput::Make(*job_, plan_.tasks.size(), store, pool,
                                                 DenseBytes() == 0 ? run_.inline_bytes_max() : 0));
  return absl::OkStatus();
}

// What every pointer of the arguments points to.
void Piece::DescribeBuffers(absl::Span<const void* const> operands, absl::Span<void* const> outputs,
                            ContentIds* contents) {
  const BoundJob& bound = job_->bound();
  buffers_.clear();
  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandPart& part = plan_.operands[i];
    PartBuffer buffer;
    buffer.args_offset = job_->args().operand_offset(i);
    buffer.host = const_cast<void*>(operands[i]);
    buffer.table = bound.operands[i].spec.ragged();
    buffer.shared = !bound.operands[i].sliced;
    if (buffer.table) {
      const bool all = part.kind == OperandPart::Kind::kBroadcast;
      const uint64_t items =
          all ? static_cast<uint64_t>(bound.operands[i].spec.shape[0]) : part.count;
      buffer.bytes = items * sizeof(TandemBytes);
    } else {
      buffer.bytes = part.slice.bytes();
      const std::string& identity = job_->identity(i);
      if (!identity.empty()) buffer.content = contents->Of(identity, part.slice);
    }
    buffers_.push_back(buffer);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputPart& part = plan_.outputs[i];
    if (part.kind == OutputPart::Kind::kPartial) continue;
    PartBuffer buffer;
    buffer.args_offset = job_->args().output_offset(i);
    buffer.host = outputs[i];
    buffer.bytes = part.bytes;
    buffer.output = true;
    buffer.table = part.kind == OutputPart::Kind::kItems;
    buffers_.push_back(buffer);
  }
}

absl::Status Piece::Allocate(OutputStore* store, BufferPool* pool, ContentIds* contents) {
  std::vector<void*> outputs;
  RETURN_IF_ERROR(AllocateOutputs(store, pool, &outputs));
  // An inline slot's bytes move with it until all slots are made.
  for (OutputSlot& slot : slots_) outputs[slot.output()] = slot.data();
  absl::InlinedVector<const void*, 8> operands;
  for (const std::unique_ptr<OperandView>& view : views_) operands.push_back(view->data());
  job_->args().Fill(operands, outputs, plan_.tasks.size(), &args_);
  if (contents != nullptr) DescribeBuffers(operands, outputs, contents);
  if (job_->may_fail()) {
    pool_ = pool;
    faults_ = pool->Take(plan_.tasks.size());
    if (faults_.data() == nullptr) {
      return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                   "no memory for fault bytes; choose a smaller grain");
    }
    clear_faults_ = plan_.tasks.size() > kClearHereBytes;
    if (!clear_faults_) std::memset(faults_.data(), 0, plan_.tasks.size());
  }
  return absl::OkStatus();
}

bool Piece::cuttable() const {
  const bool prefix = std::all_of(plan_.outputs.begin(), plan_.outputs.end(), [](const auto& o) {
    return o.kind != OutputPart::Kind::kPlaced || o.slice.contiguous();
  });
  return prefix && !suspect() && !job_->ordered() && leaves() > 1 &&
         leaves() < LeafCursor::kLeavesMax;
}

void Piece::TakeCut() {
  if (cursor_ == nullptr || cursor_->end() == leaves()) return;
  run_.set_leaf_count(cursor_->end());
  plan_ = PlanOf(run_, job_->bound());
  for (OutputSlot& slot : slots_) {
    const OutputPart& part = plan_.outputs[slot.output()];
    if (part.kind == OutputPart::Kind::kPlaced) slot.Trim(part.bytes);
  }
  for (auto& [output, ragged] : ragged_) ragged->Trim(plan_.tasks.size());
  while (!skip_.empty() && skip_.back() >= plan_.tasks.end) {
    skip_.pop_back();
    skip_reason_.pop_back();
  }
}

BatchPart Piece::Part() {
  BatchPart part;
  part.args = args_.data();
  part.first = {static_cast<int64_t>(plan_.tasks.begin), 0};
  part.tasks = static_cast<int64_t>(plan_.tasks.size());
  part.fault = faults_.data();
  part.buffers = buffers_;
  part.cursor = cursor_.get();
  part.accumulator = accumulator == nullptr ? nullptr : accumulator->device.get();
  part.partial = job_->ordered() ? partial_.data() : nullptr;
  part.job = job_->id();
  part.grain = job_->bound().grain();
  part.suspect = run_.suspect();
  part.skip = skip_;
  // What goes into sinks goes there item by item.
  part.leaf_calls = Pinned(job_->bound()) && ragged_.empty();
  return part;
}

bool Piece::needs_before() const {
  return clear_faults_ ||
         std::any_of(views_.begin(), views_.end(),
                     [](const std::unique_ptr<OperandView>& view) { return view->prepares(); });
}

void Piece::Before(HostCrew& crew) {
  if (clear_faults_) std::memset(faults_.data(), 0, plan_.tasks.size());
  for (const std::unique_ptr<OperandView>& view : views_) {
    if (view->prepares()) view->Prepare(crew);
  }
}

absl::Status Piece::After(HostCrew& crew, int64_t failed, OutputStore* store) {
  TakeCut();
  for (auto& [output, ragged] : ragged_) {
    for (uint64_t i = 0; failed > 0 && i < plan_.tasks.size(); ++i) {
      if (faults_.data()[i] != TANDEM_OK) ragged->Clear(i);
    }
    const uint64_t bytes = ragged->Bytes();
    const uint64_t inline_max =
        DenseBytes() + bytes <= run_.inline_bytes_max() ? run_.inline_bytes_max() : 0;
    ASSIGN_OR_RETURN(OutputSlot slot, store->Make(output, bytes, inline_max));
    ragged->Store(crew, slot.data());
    slots_.push_back(std::move(slot));
  }
  return stores_partial() ? partial_.Store() : absl::OkStatus();
}

void Piece::AddFailures(int64_t failed, executor::v1::PieceDone* done) const {
  const auto add = [&](uint64_t task, std::string reason) {
    tandem::v1::TaskFailure* failure = done->add_failures();
    failure->set_task(task);
    failure->set_attempt(run_.attempt());
    failure->set_reason(std::move(reason));
  };
  size_t skipped = 0;
  if (failed > 0) {
    for (uint64_t i = 0; i < plan_.tasks.size(); ++i) {
      const uint64_t task = plan_.tasks.begin + i;
      if (skipped < skip_.size() && skip_[skipped] == task) {
        add(task, skip_reason_[skipped++]);
      } else if (faults_.data()[i] != TANDEM_OK) {
        add(task, FaultText(job_->bound().kernel, faults_.data()[i]));
      }
    }
  }
  for (; skipped < skip_.size(); ++skipped) add(skip_[skipped], skip_reason_[skipped]);
}

void Piece::Finish(int64_t failed, executor::v1::PieceDone* done) {
  done->set_piece(id());
  done->set_accumulated(job_->accumulates());
  done->set_fetch_ns(static_cast<uint64_t>(ready_ns - arrived_ns));
  done->set_busy_ns(cost.busy_ns);
  done->set_first_launch(cost.first_launch);
  done->set_host_ns(cost.host_ns);
  done->set_up_ns(cost.up_ns);
  done->set_grid_ns(cost.grid_ns);
  done->set_down_ns(cost.down_ns);
  done->set_bytes_up(cost.bytes_up);
  done->set_bytes_down(cost.bytes_down);
  AddFailures(failed, done);
  done->set_tasks(plan_.tasks.size() - static_cast<uint64_t>(done->failures_size()));
  std::sort(slots_.begin(), slots_.end(),
            [](const OutputSlot& a, const OutputSlot& b) { return a.output() < b.output(); });
  for (OutputSlot& slot : slots_) slot.Finish(done->add_outputs());
  partial_.Finish(done->mutable_outputs());
}

}  // namespace tandem::worker
