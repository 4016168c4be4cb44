#include "common/probe/device_report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kVersion = 1;

template <class T>
void Put(Json* json, const char* name, const std::optional<T>& value) {
  if (value.has_value()) (*json)[name] = *value;
}
template <class T>
void Take(const Json& json, const char* name, T* value) {
  if (json.contains(name)) json.at(name).get_to(*value);
}
template <class T>
void Take(const Json& json, const char* name, std::optional<T>* value) {
  if (json.contains(name)) *value = json.at(name).get<T>();
}

Json ErrorJson(const absl::Status& error) {
  return {{"code", static_cast<int>(error.code())},
          {"reason", ReasonOf(error)},
          {"message", std::string(error.message())}};
}
absl::Status ErrorOf(const Json& json) {
  if (!json.contains("error")) return absl::OkStatus();
  const Json& error = json.at("error");
  const int code = error.at("code").get<int>();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return Error(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
               error.at("reason").get<std::string>(), error.at("message").get<std::string>());
}

Json DeviceJson(const ReportedDevice& device) {
  Json json = {{"uuid", device.uuid},
               {"model", device.model},
               {"pci", device.pci},
               {"capability", device.capability},
               {"memory_bytes", device.memory_bytes},
               {"multiprocessors", device.multiprocessors},
               {"slice", device.slice}};
  Put(&json, "numa_node", device.numa_node);
  Put(&json, "memory_used_bytes", device.memory_used_bytes);
  Put(&json, "ecc", device.ecc);
  Put(&json, "ecc_uncorrected", device.ecc_uncorrected);
  Put(&json, "mig", device.mig);
  Put(&json, "persistence", device.persistence);
  Put(&json, "remapping_failed", device.remapping_failed);
  Put(&json, "temperature_celsius", device.temperature_celsius);
  Put(&json, "power_watts", device.power_watts);
  return json;
}

ReportedDevice DeviceOf(const Json& json) {
  ReportedDevice device;
  json.at("uuid").get_to(device.uuid);
  json.at("model").get_to(device.model);
  Take(json, "pci", &device.pci);
  Take(json, "capability", &device.capability);
  json.at("memory_bytes").get_to(device.memory_bytes);
  json.at("multiprocessors").get_to(device.multiprocessors);
  Take(json, "slice", &device.slice);
  Take(json, "numa_node", &device.numa_node);
  Take(json, "memory_used_bytes", &device.memory_used_bytes);
  Take(json, "ecc", &device.ecc);
  Take(json, "ecc_uncorrected", &device.ecc_uncorrected);
  Take(json, "mig", &device.mig);
  Take(json, "persistence", &device.persistence);
  Take(json, "remapping_failed", &device.remapping_failed);
  Take(json, "temperature_celsius", &device.temperature_celsius);
  Take(json, "power_watts", &device.power_watts);
  return device;
}

DeviceReport DevicesOf(const Json& json) {
  DeviceReport report;
  Take(json, "driver", &report.driver);
  Take(json, "driver_cuda", &report.driver_cuda);
  Take(json, "runtime", &report.runtime);
  Take(json, "toolkit", &report.toolkit);
  Take(json, "visible", &report.visible);
  Take(json, "installed", &report.installed);
  Take(json, "nvml", &report.nvml);
  report.error = ErrorOf(json);
  for (const Json& device : json.at("devices")) report.devices.push_back(DeviceOf(device));
  return report;
}

GridReport GridOf(const Json& json) {
  GridReport report;
  json.at("uuid").get_to(report.uuid);
  json.at("kernel").get_to(report.kernel);
  json.at("tasks").get_to(report.tasks);
  Take(json, "start_seconds", &report.start_seconds);
  Take(json, "grid_seconds", &report.grid_seconds);
  report.error = ErrorOf(json);
  return report;
}

StartReport StartOf(const Json& json) {
  StartReport report;
  json.at("device").get_to(report.device);
  json.at("seconds").get_to(report.seconds);
  for (const auto& [name, seconds] : json.at("parts").items()) {
    report.parts.emplace_back(name, seconds.get<double>());
  }
  report.error = ErrorOf(json);
  return report;
}

absl::Status NoReport(std::string_view what) {
  return InvalidError(reason::kProtocolError,
                      StrCat("the probe's answer cannot be read: ", what,
                             "; are tandem and tandem-executor-cuda of one version?"));
}

// The library's exceptions end here.
template <class Report>
absl::StatusOr<Report> Parse(std::string_view text, std::string_view kind,
                             Report (*report_of)(const Json&)) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return NoReport("it is no JSON object");
  try {
    if (json.at("version").get<uint32_t>() != kVersion) return NoReport("another version");
    if (json.at("kind").get<std::string>() != kind) return NoReport("another kind");
    return report_of(json);
  } catch (const Json::exception& bad) {
    return NoReport(bad.what());
  }
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string ToJson(const DeviceReport& report) {
  Json json = {{"version", kVersion},       {"kind", "devices"},
               {"driver", report.driver},   {"driver_cuda", report.driver_cuda},
               {"runtime", report.runtime}, {"toolkit", report.toolkit}};
  Put(&json, "visible", report.visible);
  Put(&json, "installed", report.installed);
  json["nvml"] = report.nvml;
  if (!report.error.ok()) json["error"] = ErrorJson(report.error);
  json["devices"] = Json::array();
  for (const ReportedDevice& device : report.devices) json["devices"].push_back(DeviceJson(device));
  return Line(json);
}

std::string ToJson(const GridReport& report) {
  Json json = {{"version", kVersion},
               {"kind", "grid"},
               {"uuid", report.uuid},
               {"kernel", report.kernel},
               {"tasks", report.tasks},
               {"start_seconds", report.start_seconds},
               {"grid_seconds", report.grid_seconds}};
  if (!report.error.ok()) json["error"] = ErrorJson(report.error);
  return Line(json);
}

std::string ToJson(const StartReport& report) {
  Json json = {{"version", kVersion},
               {"kind", "start"},
               {"device", report.device},
               {"seconds", report.seconds},
               {"parts", Json::object()}};
  for (const auto& [name, seconds] : report.parts) json["parts"][name] = seconds;
  if (!report.error.ok()) json["error"] = ErrorJson(report.error);
  return Line(json);
}

absl::StatusOr<DeviceReport> ParseDeviceReport(std::string_view text) {
  return Parse<DeviceReport>(text, "devices", &DevicesOf);
}

absl::StatusOr<GridReport> ParseGridReport(std::string_view text) {
  return Parse<GridReport>(text, "grid", &GridOf);
}

absl::StatusOr<StartReport> ParseStartReport(std::string_view text) {
  return Parse<StartReport>(text, "start", &StartOf);
}

}  // namespace tandem
