// Jobs, failures and plans as texts and JSON.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_JOB_TEXT_H_
#define TANDEM_CLIENT_CLI_JOB_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/table.h"
#include "client/lib/client.h"

namespace tandem::cli {

nlohmann::ordered_json JobJson(const client::JobInfo& job);
Table JobTable(const std::vector<client::JobInfo>& jobs);
// Several lines about one job.
std::string JobText(const client::JobInfo& job);
// "job 7 SUCCEEDED: 1,000 tasks in 1.2s (833 tasks/s)" and the like, one line.
std::string EndLine(const client::JobInfo& job);
std::string PlanText(const client::JobPlan& plan);
nlohmann::ordered_json PlanJson(const client::JobPlan& plan);
Table FailureTable(const std::vector<TaskFailure>& failures);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_JOB_TEXT_H_
