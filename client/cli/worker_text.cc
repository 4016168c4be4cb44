#include "client/cli/worker_text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "client/cli/progress.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string JobsText(const std::vector<JobId>& jobs) {
  std::string text;
  for (const JobId job : jobs) StrAppend(&text, text.empty() ? "" : ",", job);
  return text.empty() ? "-" : text;
}

// A counter may have begun anew with the worker.
double Rate(uint64_t before, uint64_t now, double seconds) {
  return seconds > 0 && now >= before ? static_cast<double>(now - before) / seconds : 0;
}

// Less than a nanosecond, too.
std::string ShortTask(double seconds) {
  if (seconds >= 1e-9) return ShortTime(absl::Seconds(seconds));
  return StrCat(std::lround(seconds * 1e12), "ps");
}

// Whatever it is, it fits: a fit may say anything.
std::string CopyText(double bytes_per_second) {
  if (bytes_per_second <= 0) return "-";
  return StrCat(HumanSize(static_cast<uint64_t>(std::min(bytes_per_second, 1e18))), "/s");
}

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json ReadingJson(const std::optional<DeviceReading>& reading) {
  if (!reading.has_value()) return nullptr;
  return {{"utilization", OrNull(reading->utilization)},
          {"memory_utilization", OrNull(reading->memory_utilization)},
          {"memory_used_bytes", OrNull(reading->memory_used_bytes)},
          {"temperature_celsius", OrNull(reading->temperature_celsius)},
          {"power_watts", OrNull(reading->power_watts)},
          {"power_limit_watts", OrNull(reading->power_limit_watts)},
          {"ecc", OrNull(reading->ecc)},
          {"ecc_corrected", OrNull(reading->ecc_corrected)},
          {"ecc_uncorrected", OrNull(reading->ecc_uncorrected)}};
}

// Whatever it is, it fits: a driver may say anything.
std::string WholeText(double value) { return StrCat(std::lround(std::clamp(value, -1e9, 1e9))); }

Json RateJson(const KernelRate& rate) {
  return {{"kernel", rate.kernel},
          {"extents", rate.extents},
          {"device", KindName(rate.device)},
          {"device_name", rate.device_name},
          {"tasks_per_second", rate.tasks_per_second},
          {"seconds_per_task", rate.seconds_per_task},
          {"fixed_seconds", rate.fixed_seconds},
          {"up_bytes_per_second", rate.up_bytes_per_second},
          {"down_bytes_per_second", rate.down_bytes_per_second},
          {"bound_by", rate.bound_by},
          {"samples", rate.samples},
          {"age_seconds", absl::ToDoubleSeconds(rate.age)}};
}

}  // namespace

std::string ShortTime(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return "-";
  absl::Duration unit = absl::Nanoseconds(1);
  while (unit * 1000 <= duration) unit *= 10;
  return HumanDuration(absl::Floor(duration + unit / 2, unit));
}

std::string_view KindName(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kGpu:
      return "gpu";
    case DeviceKind::kEmulated:
      return "emulated";
    case DeviceKind::kUnspecified:
      break;
  }
  return "unknown";
}

std::string DevicesText(const std::vector<DeviceInfo>& devices) {
  std::string text;
  for (const DeviceInfo& device : devices) {
    const bool emulated = device.kind == DeviceKind::kEmulated;
    StrAppend(&text, text.empty() ? "" : ", ",
              device.kind == DeviceKind::kCpu
                  ? StrCat("cpu ", device.cores)
                  : StrCat(KindName(device.kind), " ", emulated ? device.uuid : device.model));
  }
  return text;
}

std::string DeviceText(const DeviceInfo& device) {
  return StrCat(device.uuid, ": jobs may use ", HumanSize(device.budget_bytes), " of ",
                HumanSize(device.memory_bytes), ", ", device.budget_rule, "; copied up ",
                HumanSize(device.bytes_up), ", down ", HumanSize(device.bytes_down));
}

std::string ReadingText(const DeviceReading& reading) {
  std::vector<std::string> parts;
  const auto add = [&parts](std::string part) { parts.push_back(std::move(part)); };
  if (reading.utilization) add(StrCat("busy ", WholeText(*reading.utilization * 100), "%"));
  if (reading.memory_utilization) {
    add(StrCat("its memory ", WholeText(*reading.memory_utilization * 100), "%"));
  }
  if (reading.memory_used_bytes) add(StrCat("used ", HumanSize(*reading.memory_used_bytes)));
  if (reading.temperature_celsius) add(StrCat(WholeText(*reading.temperature_celsius), " °C"));
  if (reading.power_watts) {
    add(StrCat(
        WholeText(*reading.power_watts),
        reading.power_limit_watts ? StrCat(" of ", WholeText(*reading.power_limit_watts)) : "",
        " W"));
  }
  if (reading.ecc == false) add("ECC off");
  if (reading.ecc_corrected || reading.ecc_uncorrected) {
    add(StrCat("ECC errors ", reading.ecc_corrected.value_or(0), " corrected, ",
               reading.ecc_uncorrected.value_or(0), " not"));
  }
  std::string text = StrCat(reading.uuid, ":");
  for (size_t i = 0; i < parts.size(); ++i) StrAppend(&text, i == 0 ? " " : ", ", parts[i]);
  return text;
}

std::string RateText(const KernelRate& rate) {
  std::string text =
      StrCat(rate.kernel, rate.extents.empty() ? "" : StrCat(" (", rate.extents, ")"), " on ",
             rate.device_name, ": ", ShortTask(rate.seconds_per_task), " a task");
  if (rate.fixed_seconds >= 1e-9) {
    StrAppend(&text, " + ", ShortTime(absl::Seconds(rate.fixed_seconds)), " a batch");
  }
  StrAppend(&text, ", ", HumanCount(rate.tasks_per_second), " tasks/s");
  if (rate.up_bytes_per_second > 0) {
    StrAppend(&text, ", up ", CopyText(rate.up_bytes_per_second));
  }
  if (rate.down_bytes_per_second > 0) {
    StrAppend(&text, ", down ", CopyText(rate.down_bytes_per_second));
  }
  StrAppend(&text, "; bound by ", rate.bound_by, "; ", rate.samples,
            rate.samples == 1 ? " piece, " : " pieces, the last ", ShortTime(rate.age), " ago");
  return text;
}

Table RatesTable(const std::vector<KernelRate>& rates) {
  Table table("rates", {{"KERNEL"},
                        {"EXTENTS"},
                        {"DEVICE"},
                        {"TASKS/S"},
                        {"A TASK"},
                        {"FIXED"},
                        {"UP"},
                        {"DOWN"},
                        {"BOUND BY"},
                        {"PIECES"},
                        {"AGE"}});
  for (const KernelRate& rate : rates) {
    table.Add({rate.kernel, rate.extents.empty() ? "-" : rate.extents, rate.device_name,
               HumanCount(rate.tasks_per_second), ShortTask(rate.seconds_per_task),
               ShortTime(absl::Seconds(rate.fixed_seconds)), CopyText(rate.up_bytes_per_second),
               CopyText(rate.down_bytes_per_second), rate.bound_by,
               HumanCount(static_cast<double>(rate.samples)), ShortTime(rate.age)},
              RateJson(rate));
  }
  return table;
}

Json FindingsJson(const std::vector<client::Finding>& findings) {
  Json list = Json::array();
  for (const client::Finding& finding : findings) {
    list.push_back({{"token", finding.token},
                    {"share", finding.share},
                    {"what", finding.what},
                    {"advice", finding.advice}});
  }
  return list;
}

Json WorkerJson(const client::WorkerSummary& worker) {
  Json devices = Json::array();
  for (const DeviceInfo& device : worker.devices) {
    devices.push_back({{"kind", KindName(device.kind)},
                       {"model", device.model},
                       {"uuid", device.uuid},
                       {"cores", device.cores},
                       {"groups", device.groups},
                       {"memory_bytes", device.memory_bytes},
                       {"budget_bytes", device.budget_bytes},
                       {"budget_rule", device.budget_rule},
                       {"bytes_up", device.bytes_up},
                       {"bytes_down", device.bytes_down},
                       {"reading", ReadingJson(device.reading)}});
  }
  Json rates = Json::array();
  for (const KernelRate& rate : worker.rates) {
    rates.push_back(RateJson(rate));
  }
  Json jobs = Json::array();
  for (const JobId job : worker.jobs) jobs.push_back(job.value());
  return {{"id", worker.id.value()},
          {"name", worker.name},
          {"state", worker.state},
          {"drain", worker.drain},
          {"address", worker.address},
          {"version", worker.version},
          {"leases", worker.leases},
          {"leaves_done", worker.leaves_done},
          {"tasks_done", worker.tasks_done},
          {"busy_seconds", absl::ToDoubleSeconds(worker.busy)},
          {"groups", worker.groups},
          {"queued_seconds", absl::ToDoubleSeconds(worker.queued)},
          {"latency_seconds", absl::ToDoubleSeconds(worker.latency)},
          {"fetched_bytes", worker.fetched_bytes},
          {"pushed_bytes", worker.pushed_bytes},
          {"executors_lost", worker.executors_lost},
          {"jobs", jobs},
          {"devices", devices},
          {"rates", rates},
          {"notes", FindingsJson(worker.notes)}};
}

Record WorkerRecord(const client::WorkerSummary& worker) {
  Record record("worker", worker.name, WorkerJson(worker));
  record.Line("worker", StrCat(worker.name, " (", worker.id.value(), ")"));
  record.Line("state", worker.state);
  if (worker.drain) {
    record.Line("drained",
                StrCat("it takes no work until `tandem worker resume ", worker.name, "`",
                       worker.state == "DRAINED" ? "; it holds nothing and may be stopped" : ""));
  }
  record.Line("calls from", worker.address);
  record.Line("version", worker.version);
  record.Line("devices", DevicesText(worker.devices));
  for (const DeviceInfo& device : worker.devices) {
    if (device.kind != DeviceKind::kCpu) record.Line("device", DeviceText(device));
    if (device.reading.has_value()) record.Line("reading", ReadingText(*device.reading));
  }
  record.Line("leases", StrCat(worker.leases));
  record.Line("jobs", worker.jobs.empty() ? "" : JobsText(worker.jobs));
  record.Line("leaves done", StrCat(worker.leaves_done));
  record.Line("lost", worker.executors_lost == 0
                          ? ""
                          : StrCat(worker.executors_lost, " executors, since the master started"));
  for (const KernelRate& rate : worker.rates) record.Line("rate", RateText(rate));
  for (const client::Finding& note : worker.notes) {
    record.Line("note", StrCat(note.token, ": ", note.what,
                               note.advice.empty() ? "" : StrCat("; ", note.advice)));
  }
  return record;
}

Table TopTable(const std::vector<client::WorkerSummary>& before,
               const std::vector<client::WorkerSummary>& now, absl::Duration between) {
  Table table("workers", {{"NAME"},
                          {"STATE"},
                          {"GROUPS"},
                          {"BUSY"},
                          {"TASKS/S"},
                          {"LEASES"},
                          {"QUEUED"},
                          {"FETCHED/S"},
                          {"PUSHED/S"},
                          {"ROUND TRIP"},
                          {"JOBS"}});
  const double seconds = absl::ToDoubleSeconds(between);
  for (const client::WorkerSummary& worker : now) {
    const auto same = std::ranges::find(before, worker.id, &client::WorkerSummary::id);
    const client::WorkerSummary was = same == before.end() ? client::WorkerSummary() : *same;
    const double busy =
        seconds > 0 && worker.groups > 0
            ? std::clamp(absl::ToDoubleSeconds(worker.busy - was.busy) / seconds / worker.groups,
                         0.0, 1.0)
            : 0;
    const double tasks = Rate(was.tasks_done, worker.tasks_done, seconds);
    const double fetched = Rate(was.fetched_bytes, worker.fetched_bytes, seconds);
    const double pushed = Rate(was.pushed_bytes, worker.pushed_bytes, seconds);
    Json item = WorkerJson(worker);
    item["busy_ratio"] = busy;
    item["tasks_per_second"] = tasks;
    item["fetched_bytes_per_second"] = fetched;
    item["pushed_bytes_per_second"] = pushed;
    table.Add({worker.name, worker.state, StrCat(worker.groups),
               StrCat(static_cast<int>(std::lround(100 * busy)), "%"), HumanCount(tasks),
               StrCat(worker.leases), ShortTime(worker.queued),
               HumanSize(static_cast<uint64_t>(fetched)), HumanSize(static_cast<uint64_t>(pushed)),
               ShortTime(worker.latency), JobsText(worker.jobs)},
              std::move(item));
  }
  return table;
}

}  // namespace tandem::cli
