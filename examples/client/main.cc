// Prices options on a Tandem cluster: submits a job, watches it, reads its results.
//
//   options [ADDRESS [COUNT]]
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/client/client.h"

namespace {

using tandem::client::Argument;
using tandem::client::Client;
using tandem::client::JobInfo;

// Submits: every operand is named by a text, as on the command line. A generator is evaluated by
// the workers; "@spot.npy" would upload a file.
absl::StatusOr<JobInfo> Submit(Client* client, const std::string& count) {
  const auto kernel = client->GetKernel("black_scholes");
  if (!kernel.ok()) return kernel.status();
  const std::vector<Argument> arguments = {{"spot", "uniform(seed=1,lo=50,hi=150)"},
                                           {"strike", "constant(100)"},
                                           {"years", "constant(1)"},
                                           {"rate", "0.03"},
                                           {"volatility", "0.25"},
                                           {"n", count}};
  const auto job = tandem::client::PrepareJob(*kernel, {}, arguments);
  if (!job.ok()) return job.status();
  const auto uploaded = client->Upload(job->uploads, [](uint64_t, uint64_t) {});
  if (!uploaded.ok()) return uploaded.status();
  return client->Submit(job->spec);
}

// Watches until the job has ended. What it shows is durable: it survives a restart of the master.
absl::StatusOr<JobInfo> Watch(Client* client, const JobInfo& job) {
  return client->Wait(job.id, [](const JobInfo& now) {
    std::fprintf(stderr, "%" PRIu64 " of %" PRIu64 " tasks\n", now.tasks_done, now.task_count);
    return true;  // go on
  });
}

// The output `call` is f32[n], row-major and little-endian: here its first tasks.
absl::StatusOr<std::vector<float>> ReadCalls(Client* client, const JobInfo& job, uint64_t tasks) {
  std::string bytes;
  const absl::Status status = client->ReadOutput(
      job.id, "call", {.first_task = 0, .task_count = tasks}, [&bytes](std::string_view chunk) {
        bytes += chunk;
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  std::vector<float> calls(bytes.size() / sizeof(float));
  std::memcpy(calls.data(), bytes.data(), calls.size() * sizeof(float));
  return calls;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "options: %s (%s)\n", std::string(status.message()).c_str(),
               tandem::ReasonOf(status).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string address = argc > 1 ? argv[1] : "127.0.0.1:7460";
  const std::string count = argc > 2 ? argv[2] : "1000000";
  auto client = Client::Connect({.address = address});
  if (!client.ok()) return Fail(client.status());
  auto job = Submit(client->get(), count);
  if (!job.ok()) return Fail(job.status());
  job = Watch(client->get(), *job);
  if (!job.ok()) return Fail(job.status());
  if (job->state != tandem::client::JobState::kSucceeded) {
    std::fprintf(stderr, "options: the job ended %s: %s\n",
                 std::string(JobStateName(job->state)).c_str(), job->reason.c_str());
    return 1;
  }
  const auto calls = ReadCalls(client->get(), *job, 3);
  if (!calls.ok()) return Fail(calls.status());
  for (const float call : *calls) std::printf("%.4f\n", call);
  return 0;
}
