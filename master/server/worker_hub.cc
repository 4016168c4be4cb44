#include "master/server/worker_hub.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <variant>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/wire/job_spec.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "common/wire/usage.h"

namespace tandem::master {
namespace {

constexpr uint64_t kAllForgets = std::numeric_limits<uint64_t>::max();

absl::Status LostBeforeItSaid(const std::string& name) {
  return Error(absl::StatusCode::kUnavailable, reason::kWorkerLost,
               StrCat("worker ", name,
                      " was lost before it said that it has forgotten: ask again when it is back"));
}

}  // namespace

void WorkerHub::Greet(RequestToken token, std::shared_ptr<WorkerStream> stream,
                      wire::WorkerHello hello, absl::Time now) {
  Greeted& greeted = greeted_[token];
  greeted.stream = std::move(stream);
  greeted.profile = {.name = std::move(hello.name),
                     .version = std::move(hello.version),
                     .address = greeted.stream->host(),
                     .devices = std::move(hello.devices),
                     .rates = {},
                     .attached = now,
                     .last_heard = now,
                     .leaves_done = 0,
                     .usage = {},
                     .executors_lost = 0};
}

void WorkerHub::Reject(RequestToken token, const absl::Status& status) {
  const auto it = greeted_.find(token);
  if (it == greeted_.end()) return;
  it->second.stream->Close(status);
  greeted_.erase(it);
}

WorkerHub::Gone WorkerHub::Remove(const WorkerStream* stream) {
  std::erase_if(greeted_,
                [stream](const auto& entry) { return entry.second.stream.get() == stream; });
  for (auto it = peers_.begin(); it != peers_.end(); ++it) {
    if (it->second.stream.get() != stream) continue;
    const Gone gone{it->first, it->second.token};
    TLOG(Info, "worker_detached", "worker", gone.worker, "name", profiles_[gone.worker].name);
    EndForgetting(&it->second, kAllForgets, LostBeforeItSaid(profiles_[gone.worker].name));
    peers_.erase(it);
    return gone;
  }
  return {};
}

void WorkerHub::Describe(JobId job, worker::v1::JobDescription* to) const {
  to->set_job(job.value());
  const std::shared_ptr<const JobAccepted> accepted = board_->FindAccepted(job);
  if (accepted == nullptr) return;
  wire::Encode(accepted->bound->spec, to->mutable_spec());
  wire::Encode(accepted->bound->kernel, to->mutable_kernel());
}

void WorkerHub::PruneProfiles() {
  for (auto it = profiles_.begin(); it != profiles_.end() && profiles_.size() > kProfilesMax;) {
    it = peers_.contains(it->first) ? std::next(it) : profiles_.erase(it);
  }
}

bool WorkerHub::Welcome(const WelcomeWorker& welcome, const std::vector<DescribeJob>& describes) {
  const auto it = greeted_.find(welcome.stream);
  if (it == greeted_.end()) return false;
  Peer& peer = peers_[welcome.worker];
  if (peer.stream != nullptr) {
    peer.stream->Close(Error(absl::StatusCode::kAborted, reason::kStaleLease,
                             "the worker has attached again over another stream"));
    EndForgetting(&peer, kAllForgets, LostBeforeItSaid(profiles_[welcome.worker].name));
  }
  PruneProfiles();
  WorkerProfile& profile = profiles_[welcome.worker];
  const uint64_t leaves_done = profile.leaves_done;
  const uint64_t executors_lost = profile.executors_lost;
  const std::vector<DeviceInfo> devices = std::move(profile.devices);
  v1::Usage usage = std::move(profile.usage);
  profile = std::move(it->second.profile);
  profile.leaves_done = leaves_done;
  profile.executors_lost = executors_lost;
  profile.usage = std::move(usage);
  for (DeviceInfo& device : profile.devices) {
    const auto before = std::ranges::find(devices, device.uuid, &DeviceInfo::uuid);
    device.bytes_up = before == devices.end() ? 0 : before->bytes_up;
    device.bytes_down = before == devices.end() ? 0 : before->bytes_down;
  }
  peer = {.token = welcome.stream,
          .stream = std::move(it->second.stream),
          .draft = {},
          .drafted = false,
          .drain = false,
          .forgetting = {}};
  greeted_.erase(it);
  TLOG(Info, "worker_attached", "worker", welcome.worker, "name", profile.name, "adopted",
       welcome.adopted.size());

  worker::v1::MasterMessage message;
  worker::v1::Welcome* to = message.mutable_welcome();
  to->set_worker(welcome.worker.value());
  to->set_epoch(welcome.epoch.value());
  to->set_lease_ttl_ns(absl::ToInt64Nanoseconds(welcome.lease_ttl));
  to->set_heartbeat_ns(absl::ToInt64Nanoseconds(welcome.heartbeat));
  for (const Grant& grant : welcome.adopted) wire::Encode(grant, to->add_adopted());
  for (const JobId job : welcome.jobs) Describe(job, to->add_jobs());
  to->set_cluster_id(cluster_id_);
  to->set_host_id(host_id_);
  to->set_handover(handover_);
  peer.stream->Send(std::move(message));
  peer.stream->Welcome(welcome.worker);
  // What was described in this batch went to the stream before.
  for (const DescribeJob& describe : describes) {
    if (describe.worker == welcome.worker) {
      Describe(describe.job, Draft(welcome.worker)->add_jobs());
    }
  }
  return true;
}

worker::v1::MasterMessage* WorkerHub::Draft(WorkerId worker) {
  const auto it = peers_.find(worker);
  if (it == peers_.end()) return nullptr;
  if (!std::exchange(it->second.drafted, true)) drafted_.push_back(worker);
  return &it->second.draft;
}

void WorkerHub::AddTo(worker::v1::MasterMessage* draft, const ToWorker& message) const {
  if (const auto* grant = std::get_if<Grant>(&message.what)) {
    wire::Encode(*grant, draft->add_grants());
  } else if (const auto* merge = std::get_if<MergeGrant>(&message.what)) {
    wire::Encode(*merge, draft->add_merges());
  } else if (const auto* recall = std::get_if<Recall>(&message.what)) {
    wire::Encode(*recall, draft->add_recalls());
  } else if (const auto* outlook = std::get_if<Outlook>(&message.what)) {
    wire::Encode(*outlook, draft->add_outlooks());
  }
}

std::vector<WorkerHub::Gone> WorkerHub::SendNow(const Effects& effects) {
  std::vector<Gone> gone;
  for (const EndStream& end : effects.ends) {
    const auto peer = peers_.find(end.worker);
    if (peer == peers_.end() || peer->second.token != end.stream) continue;
    peer->second.stream->Close(end.why);  // Its end comes as OnGone.
  }
  for (const DescribeJob& describe : effects.describes) {
    if (auto* draft = Draft(describe.worker)) Describe(describe.job, draft->add_jobs());
  }
  for (const ToWorker& message : effects.to_workers) {
    if (const auto* welcome = std::get_if<WelcomeWorker>(&message.what)) {
      Flush();
      if (!Welcome(*welcome, effects.describes)) gone.push_back({welcome->worker, welcome->stream});
    } else if (auto* draft = Draft(message.worker)) {
      AddTo(draft, message);
    }
  }
  for (const SetDrain& drain : effects.drains) {
    if (Draft(drain.worker) != nullptr) peers_[drain.worker].drain = drain.drain;
  }
  return gone;
}

void WorkerHub::SendDurable(const std::vector<DropJob>& drops, const std::vector<AckReport>& acks) {
  for (const DropJob& drop : drops) {
    if (auto* draft = Draft(drop.worker)) draft->add_drop_jobs(drop.job.value());
  }
  for (const AckReport& ack : acks) {
    if (auto* draft = Draft(ack.worker)) draft->set_acked_report(ack.number);
  }
}

void WorkerHub::Pulse(MonoTime now) {
  for (auto& [worker, peer] : peers_) Draft(worker)->set_pulse(static_cast<uint64_t>(now.nanos()));
}

void WorkerHub::Flush() {
  for (const WorkerId worker : drafted_) {
    const auto it = peers_.find(worker);
    if (it == peers_.end() || !std::exchange(it->second.drafted, false)) continue;
    it->second.draft.set_drain(it->second.drain);
    it->second.stream->Send(std::exchange(it->second.draft, {}));
  }
  drafted_.clear();
}

void WorkerHub::CloseAll(const absl::Status& status) {
  for (auto& [token, greeted] : greeted_) greeted.stream->Close(status);
  for (auto& [worker, peer] : peers_) {
    peer.stream->Close(status);
    EndForgetting(&peer, kAllForgets, status);
  }
  greeted_.clear();
}

void WorkerHub::ForgetRates(WorkerId worker, const std::string& kernel,
                            std::function<void(const absl::Status&)> done) {
  worker::v1::MasterMessage* draft = Draft(worker);
  if (draft == nullptr) {
    const WorkerProfile* profile = Profile(worker);
    const std::string name = profile == nullptr ? StrCat("#", worker) : profile->name;
    return done(Error(absl::StatusCode::kUnavailable, reason::kWorkerLost,
                      StrCat("worker ", name, " is not attached: it can be told when it is back")));
  }
  worker::v1::ForgetRates* forget = draft->add_forgets();
  forget->set_number(++last_forget_);
  forget->set_kernel(kernel);
  peers_[worker].forgetting[last_forget_] = std::move(done);
}

void WorkerHub::EndForgetting(Peer* peer, uint64_t up_to, const absl::Status& status) {
  auto& forgetting = peer->forgetting;
  while (!forgetting.empty() && forgetting.begin()->first <= up_to) {
    const auto done = std::move(forgetting.begin()->second);
    forgetting.erase(forgetting.begin());
    done(status);
  }
}

void WorkerHub::NoteRates(const Report& report, absl::Time now, WorkerProfile* profile) {
  auto& rates = profile->rates;
  if (report.forgot != 0) rates.clear();
  for (const KernelRate& rate : report.rates) {
    std::erase_if(rates, [&rate](const auto& other) {
      return other.first.kernel == rate.kernel && other.first.extents == rate.extents &&
             other.first.device_name == rate.device_name;
    });
    if (rates.size() >= kRatesMax) rates.erase(rates.begin());
    rates.emplace_back(rate, now);
  }
}

void WorkerHub::NoteReport(WorkerId worker, const Report& report, absl::Time now) {
  const auto it = profiles_.find(worker);
  if (it == profiles_.end()) return;
  for (const Commit& commit : report.commits) {
    for (const LeafRun& run : commit.runs) it->second.leaves_done += run.leaves.count;
  }
  NoteRates(report, now, &it->second);
  const auto peer = peers_.find(worker);
  if (report.forgot != 0 && peer != peers_.end()) {
    EndForgetting(&peer->second, report.forgot, absl::OkStatus());
  }
}

void WorkerHub::NoteMessage(const FromWorker& message, absl::Time now) {
  NoteCounters(message.counters);
  const auto it = profiles_.find(message.worker);
  if (it == profiles_.end()) return;
  it->second.last_heard = now;
  if (message.notes.has_value()) it->second.notes = *message.notes;
  for (const v1::JobUsage& usage : message.usages) {
    wire::AddUsage(usage.usage(), &it->second.usage);
  }
  const auto lost = message.counters.find("executors_lost");
  if (lost != message.counters.end()) it->second.executors_lost += lost->second;
  for (DeviceInfo& device : it->second.devices) {
    if (device.kind == DeviceKind::kCpu) continue;
    const auto grown = [&](std::string_view counter) -> uint64_t {
      const auto found = message.counters.find(StrCat(counter, "@", device.uuid));
      return found == message.counters.end() ? 0 : found->second;
    };
    device.bytes_up += grown("bytes_up");
    device.bytes_down += grown("bytes_down");
    if (!message.readings.has_value()) continue;
    device.reading.reset();
    for (const DeviceReading& reading : *message.readings) {
      if (!device.uuid.empty() && reading.uuid == device.uuid) device.reading = reading;
    }
  }
}

WorkerLook WorkerHub::LookAt(WorkerId worker, v1::DeviceKind device) const {
  const WorkerProfile* profile = Profile(worker);
  WorkerLook look{.name = StrCat("#", worker), .groups = 1, .device = device};
  if (profile == nullptr) return look;
  look.name = profile->name;
  uint32_t groups = 0;  // of all its devices of the kind
  for (const DeviceInfo& info : profile->devices) {
    const auto kind = static_cast<v1::DeviceKind>(info.kind);
    if (look.device == v1::DEVICE_KIND_UNSPECIFIED) look.device = kind;
    if (kind == look.device) groups += std::max<uint32_t>(1, info.groups);
  }
  look.groups = std::max<uint32_t>(1, groups);
  return look;
}

void WorkerHub::NoteCounters(const std::map<std::string, uint64_t>& grown) {
  for (const auto& [name, value] : grown) {
    if (name.find('@') != std::string::npos) continue;  // of one device: its own
    const auto it = counters_.find(name);
    if (it != counters_.end()) {
      it->second += value;
    } else if (counters_.size() < kCountersMax) {
      counters_.emplace(name, value);
    }
  }
}

const WorkerProfile* WorkerHub::Profile(WorkerId worker) const {
  const auto it = profiles_.find(worker);
  return it == profiles_.end() ? nullptr : &it->second;
}

std::vector<WorkerId> WorkerHub::Attached() const {
  std::vector<WorkerId> workers;
  for (const auto& [worker, peer] : peers_) workers.push_back(worker);
  return workers;
}

}  // namespace tandem::master
