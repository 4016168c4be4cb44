// Asking a job's puller: what it is told of the lanes, and of what other jobs have on them.
#include <algorithm>

#include "common/base/reason.h"
#include "common/base/strings.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

// A lane on which something runs that may take any time counts as busy for so long.
constexpr absl::Duration kAnyTime = absl::Hours(1);

}  // namespace

// May this device run the job at all, whatever it is doing now?
bool WorkerCore::Eligible(const JobState& job, DeviceIndex index) const {
  if (job.eligible_version != devices_version_) {
    job.eligible_version = devices_version_;
    job.eligible = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      const WorkerDevice& device = devices_[i];
      const bool cpu = device.kind == DeviceKind::kCpu;
      const bool chosen =
          job.info.device == DeviceChoice::kAuto || (job.info.device == DeviceChoice::kCpu) == cpu;
      const bool has = !device.kernels.has_value() || device.kernels->contains(job.info.kernel);
      const bool room = cpu || job.info.gpu_memory_bytes <= device.budget_bytes;
      if (chosen && has && room && device.trouble.empty()) job.eligible |= uint64_t{1} << i;
    }
  }
  return ((job.eligible & ~job.barred) >> index & 1) != 0;
}

bool WorkerCore::Holds(DeviceIndex index, const LeaseRun& run) const {
  return devices_[index].kind == DeviceKind::kCpu || run.need_bytes <= devices_[index].budget_bytes;
}

// Why no device of this worker may run the job; "": one may.
std::string WorkerCore::WhyNowhere(const JobState& job) const {
  std::string trouble;
  bool lacks_kernel = false;
  const WorkerDevice* largest = nullptr;  // of those that only have not the memory
  for (DeviceIndex index = 0; index < devices_.size(); ++index) {
    const WorkerDevice& device = devices_[index];
    if (Eligible(job, index)) return "";
    if ((device.kind == DeviceKind::kCpu) == (job.info.device == DeviceChoice::kGpu)) continue;
    const bool has = !device.kernels.has_value() || device.kernels->contains(job.info.kernel);
    if (device.trouble.empty() && !has) {
      lacks_kernel = true;
    } else if (device.trouble.empty()) {
      if (largest == nullptr || device.budget_bytes > largest->budget_bytes) largest = &device;
    } else if (trouble.empty()) {
      trouble = StrCat(device.name, " is out of service: ", device.trouble);
    }
  }
  if (largest != nullptr) {
    return StrCat(reason::kNoGpu, ": the job is to have ", HumanSize(job.info.gpu_memory_bytes),
                  " of a device's memory (--gpu-memory), and the largest budget here is ",
                  HumanSize(largest->budget_bytes), ", of ", largest->name);
  }
  if (lacks_kernel) {
    return StrCat(reason::kNoGpu, ": the job is for a GPU, and this worker's have no form of ",
                  job.info.kernel, "; submit it with --device auto");
  }
  if (!trouble.empty()) return StrCat(reason::kNoGpu, ": ", trouble);
  return StrCat(reason::kNoGpu,
                ": the job is for a GPU, and this worker has none; submit it with --device auto");
}

JobOnDevice& WorkerCore::OnDevice(JobState* job, DeviceIndex device) const {
  if (job->on.size() <= device) job->on.resize(device + 1);
  return job->on[device];
}

Estimate WorkerCore::EstimateOf(const JobState& job, DeviceIndex device) const {
  using Source = Estimate::Source;
  const double hint = job.info.cost_ns_per_task * 1e-9;
  double cores_a_lane = 1;
  if (device < job.owner->executors.size()) {
    const OwnersExecutor& executor = job.owner->executors[device];
    cores_a_lane = std::max(1.0, static_cast<double>(executor.cores) / executor.lanes);
  }
  const double hinted = hint / cores_a_lane;
  if (device < job.on.size() && job.on[device].rate.known()) {
    const RateModel& rate = job.on[device].rate;
    return {rate.slope(), rate.fixed(), Source::kJob, hinted};
  }
  if (const std::optional<Prediction> line = LearnedOf(job, device)) {
    return {line->per_task.Alone(), line->fixed.Alone(),
            line->same_extents ? Source::kSameExtents : Source::kKernel, hinted};
  }
  return {hinted, 0, Source::kHint, hinted};
}

std::optional<Prediction> WorkerCore::LearnedOf(const JobState& job, DeviceIndex index) const {
  const WorkerDevice& device = devices_[index];
  const double hint = job.info.cost_ns_per_task * 1e-9;
  std::optional<Prediction> best = device.learned.Predict(job.model_key, hint);
  for (const WorkerDevice& other : devices_) {
    if (best.has_value() && best->same_extents) break;
    if (&other == &device || device.model.empty() || other.model != device.model) continue;
    std::optional<Prediction> line = other.learned.Predict(job.model_key, hint);
    if (line.has_value() && (line->same_extents || !best.has_value())) best = line;
  }
  return best;
}

double WorkerCore::FixedCost(double fitted) const {
  return std::clamp(fitted, absl::ToDoubleSeconds(options_.pull.piece_overhead),
                    absl::ToDoubleSeconds(options_.pull.piece_overhead_max));
}

PullDevice WorkerCore::PredictionOf(const JobState& job, const PullLane& lane) const {
  const Estimate estimate = EstimateOf(job, lane.device);
  const bool cpu = devices_[lane.device].kind == DeviceKind::kCpu;
  PullDevice told;
  told.end = cpu ? PoolEnd::kBack : PoolEnd::kFront;
  told.pieces_max = std::max(options_.pull.pieces_per_group, options_.pull.small_pieces_max);
  told.probes_max = cpu ? options_.pull.pieces_per_group : 1;
  told.seconds_per_leaf = estimate.first_seconds_per_task() * static_cast<double>(job.tree.grain());
  told.fixed_seconds = FixedCost(estimate.fixed_seconds);
  told.gives_back = cpu && job.owner->executors[lane.device].shrinks && !job.info.whole_nodes();
  return told;
}

void WorkerCore::TellPuller(JobState* job, MonoTime now) const {
  if (job->pulls == nullptr) job->pulls = std::make_unique<JobPulls>(options_.pull.puller);
  JobPulls& pulls = *job->pulls;
  bool cpu = false, other = false;
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    if (i >= pulls.lanes.size()) {
      pulls.lanes.emplace_back();
      pulls.puller.Lost(pulls.puller.AddDevice({}));
    }
    const PullLane& lane = lanes_[i];
    JobPulls::OfLane& own = pulls.lanes[i];
    const bool there = ExecutorFor(job->owner, lane) != nullptr && Eligible(*job, lane.device);
    if (there && !own.there) {
      pulls.puller.Back(i, PredictionOf(*job, lane));
      own.told_rate = false;
    } else if (own.there && !there) {
      pulls.puller.Lost(i);
    }
    own.there = there;
    if (!there) continue;
    (devices_[lane.device].kind == DeviceKind::kCpu ? cpu : other) = true;
    TellOthers(job, i, now);
  }
  pulls.both_ends = cpu && other;
}

// What other jobs have on the lane.
void WorkerCore::TellOthers(JobState* job, uint32_t index, MonoTime now) const {
  Puller& puller = job->pulls->puller;
  const PullLane& lane = lanes_[index];
  const JobPulls::OfLane& own = job->pulls->lanes[index];
  puller.OtherEnded(index, lane.last_end);
  if (lane.in_flight == own.in_flight) {
    puller.Occupied(index, MonoTime::InfinitePast());
  } else if (lane.unpredicted > own.unpredicted) {
    puller.Occupied(index, now + kAnyTime);
  } else {
    // What is late is taken to be half done.
    const absl::Duration left = lane.busy_since + (lane.predicted - own.predicted) - now;
    puller.Occupied(index, now + std::max(left, -left));
  }
}

// Where nobody pulls from the other end results come in order. A device that has not the memory
// for what lies at its end takes from the other.
PoolEnd WorkerCore::EndAt(const JobState& job, DeviceIndex device) const {
  const bool both = job.pulls != nullptr && job.pulls->both_ends;
  const bool back = both && devices_[device].kind == DeviceKind::kCpu;
  const bool front_holds = Holds(device, job.pool.front());
  const bool back_holds = Holds(device, job.pool.back());
  return (back ? back_holds || !front_holds : back_holds && !front_holds) ? PoolEnd::kBack
                                                                          : PoolEnd::kFront;
}

uint64_t WorkerCore::Ask(JobState* job, uint32_t index, PoolEnd end, MonoTime now) {
  JobPulls& pulls = *job->pulls;
  const PullLane& lane = lanes_[index];
  const Estimate estimate = EstimateOf(*job, lane.device);
  // What the job has shown on another lane of the device says more than its hint.
  JobPulls::OfLane& own = pulls.lanes[index];
  if (estimate.proven() && !own.told_rate && own.in_flight == 0 && !pulls.puller.Proven(index)) {
    pulls.puller.Back(index, PredictionOf(*job, lane));
    own.told_rate = true;
    TellOthers(job, index, now);
  }
  const LeaseRun& next = end == PoolEnd::kFront ? job->pool.front() : job->pool.back();
  if (!Holds(lane.device, next)) return 0;
  if (next.need_bytes > 0) return 1;
  if (next.suspect) return std::min(uint64_t{1} << next.level, job->piece_leaves_max);
  const Puller::Decision decision =
      pulls.puller.Ask(index, now, {job->pool.leaves(), job->share_leaves});
  look_again_ = std::min(look_again_, decision.look_again);
  if (decision.leaves == 0) return 0;
  uint64_t most = job->piece_leaves_max;
  if (!estimate.proven()) {
    most = std::min(most, options_.pull.unproven_leaves_max);
  } else {
    const double probe = options_.pull.puller.probe_seconds /
                         (estimate.seconds_per_task * static_cast<double>(job->tree.grain()));
    const double grown =
        options_.pull.growth_max * static_cast<double>(OnDevice(job, lane.device).proven_leaves);
    most =
        static_cast<uint64_t>(std::clamp(std::max(grown, probe), 1.0, static_cast<double>(most)));
  }
  return std::min(decision.leaves, most);
}

void WorkerCore::TellFinished(const PieceFinished& event, MonoTime now) {
  const auto found = pieces_.find(event.piece);
  if (found == pieces_.end() || found->second.executor->id != event.executor) return;
  const InFlightPiece& piece = found->second;
  if (piece.is_void || piece.merge != nullptr) return;
  JobState& job = jobs_.at(piece.job);
  const DeviceIndex device = lanes_[piece.lane].device;
  // A suspect runs apart from others and perhaps task by task, which says little of them.
  const auto launch =
      piece.run.suspect || event.first_launch ? Puller::Launch::kFirst : Puller::Launch::kWarm;
  Puller& puller = job.pulls->puller;
  puller.FixedCost(piece.lane, FixedCost(OnDevice(&job, device).rate.fixed()));
  // A core group runs one thing at a time. On a GPU copies overlap: what counts is how soon after
  // the last piece this one came.
  std::optional<double> measured;
  if (devices_[device].kind == DeviceKind::kCpu) {
    measured = std::max(absl::ToDoubleSeconds(event.busy), 0.0);
  }
  puller.Finished(piece.lane, event.piece, now, launch, measured);
}

void WorkerCore::LeavePulls(JobState* job, PieceId id, const InFlightPiece& piece) {
  job->pulls->puller.Shrunk(piece.lane, id, 0);
  JobPulls::OfLane& own = job->pulls->lanes[piece.lane];
  --own.in_flight;
  if (piece.predicted == absl::InfiniteDuration()) {
    --own.unpredicted;
  } else {
    own.predicted -= piece.predicted;
  }
}

}  // namespace tandem::worker
