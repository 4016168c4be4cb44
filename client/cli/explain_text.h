// Explanations of jobs and workers as texts and JSON.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_EXPLAIN_TEXT_H_
#define TANDEM_CLIENT_CLI_EXPLAIN_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "client/lib/client.h"

namespace tandem::cli {

nlohmann::ordered_json ExplanationJson(const client::JobExplanation& explanation);
// The findings, then the numbers they come from, a line a worker.
std::string ExplanationText(const client::JobExplanation& explanation);

nlohmann::ordered_json ExplanationJson(const client::WorkerExplanation& explanation);
std::string ExplanationText(const client::WorkerExplanation& explanation);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_EXPLAIN_TEXT_H_
