// Workers as texts and JSON.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_WORKER_TEXT_H_
#define TANDEM_CLIENT_CLI_WORKER_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/table.h"
#include "client/lib/client.h"

namespace tandem::cli {

std::string_view KindName(DeviceKind kind);
// To three digits: "1.23s"; "-" for none.
std::string ShortTime(absl::Duration duration);
// What jobs may use of a device's memory, and what was copied.
std::string DeviceText(const DeviceInfo& device);
// "GPU-…: busy 37%, 41 °C, 124 W, …": what its driver told.
std::string ReadingText(const DeviceReading& reading);
// "cpu 2" or "gpu NVIDIA …"
std::string DevicesText(const std::vector<DeviceInfo>& devices);
// "spin@7f on cpu: 812ns a task + 30us a batch, 1.2M tasks/s; …"
std::string RateText(const KernelRate& rate);
// What was learned of how long work takes, a row each.
Table RatesTable(const std::vector<KernelRate>& rates);
nlohmann::ordered_json FindingsJson(const std::vector<client::Finding>& findings);
nlohmann::ordered_json WorkerJson(const client::WorkerSummary& worker);
Record WorkerRecord(const client::WorkerSummary& worker);
// What every worker does now: by what has grown from `before` (names that are not there: since the
// master started) to `now` within `between`.
Table TopTable(const std::vector<client::WorkerSummary>& before,
               const std::vector<client::WorkerSummary>& now, absl::Duration between);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_WORKER_TEXT_H_
