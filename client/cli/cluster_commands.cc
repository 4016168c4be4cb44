// `tandem worker …`, `tandem master …`, `tandem kernel …`.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>

#include "client/cli/context.h"
#include "client/cli/progress.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"
#include "common/model/gpu_memory.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

Json KernelJson(const KernelInfo& kernel) {
  return {{"name", kernel.name},
          {"identity", kernel.identity()},
          {"signature", kernel.signature.ToString()},
          {"class", OutputClassName(kernel.output_class)},
          {"tolerance", kernel.tolerance},
          {"summary", kernel.summary},
          {"split_axes", kernel.split_axes},
          {"cost_ns", kernel.cost.ns_per_unit},
          {"cost_units", kernel.cost.units},
          {"failures", kernel.fault_reasons}};
}

absl::Status ListKernels(Context* context) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const auto kernels, client->ListKernels());
  Table table("kernels",
              {{"NAME"}, {"CLASS"}, {"WORKERS"}, {"SIGNATURE"}, {"IDENTITY", Column::kWide}});
  // The bare name is the current build's; another one is asked for by its identity.
  for (const auto& [kernel, builtin, current, workers] : kernels) {
    Json json = KernelJson(kernel);
    json["builtin"] = builtin;
    json["current"] = current;
    json["workers"] = workers;
    table.Add({current ? kernel.name : kernel.identity(),
               std::string(OutputClassName(kernel.output_class)), StrCat(workers),
               kernel.signature.ToString(), kernel.identity()},
              json);
  }
  std::cout << table.Render(context->format());
  return absl::OkStatus();
}

absl::Status ShowKernel(Context* context, const std::string& name) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const KernelInfo kernel, client->GetKernel(name));
  Record record("kernel", kernel.name, KernelJson(kernel));
  record.Line("kernel", kernel.identity());
  record.Line("signature", kernel.signature.ToString());
  record.Line("class", OutputClassName(kernel.output_class));
  if (kernel.output_class == OutputClass::kTolerant) {
    record.Line("tolerance", StrCat(kernel.tolerance, ", relative"));
  }
  record.Line("summary", kernel.summary);
  for (size_t axis = 0; axis < kernel.signature.axes().size(); ++axis) {
    const absl::Status splittable = kernel.signature.CheckSplittable(static_cast<int>(axis));
    record.Line(StrCat("axis ", kernel.signature.axes()[axis]),
                splittable.ok() ? "can be split" : ToStd(splittable.message()));
  }
  for (size_t code = 1; code < kernel.fault_reasons.size(); ++code) {
    record.Line("may fail", kernel.fault_reasons[code]);
  }
  std::cout << record.Render(context->format());
  return absl::OkStatus();
}

absl::Status MasterStatus(Context* context) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const auto master, client->GetMaster());
  Record record("master", context->address,
                {{"address", context->address},
                 {"version", master.version},
                 {"cluster_id", master.cluster_id},
                 {"epoch", master.epoch},
                 {"workers", master.workers},
                 {"jobs_running", master.jobs_running},
                 {"counters", master.counters}});
  record.Line("master", context->address);
  record.Line("version", master.version);
  record.Line("cluster", master.cluster_id);
  record.Line("epoch", StrCat(master.epoch));
  record.Line("workers", StrCat(master.workers));
  record.Line("jobs", StrCat(master.jobs_running, " running"));
  if (context->format() == Format::kWide) {
    for (const auto& [name, value] : master.counters) record.Line(name, StrCat(value));
  }
  std::cout << record.Render(context->format());
  return absl::OkStatus();
}

// Becomes a companion program, which lies beside this one.
absl::Status Become(const std::string& program, const std::vector<std::string>& arguments) {
  const std::string path = Context::BinaryDirectory() + "/" + program;
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
               StrCat("cannot start ", path, ": ", std::strerror(errno),
                      "; install Tandem's programs into one directory"));
}

void AddStart(CLI::App* parent, Context* context, const std::string& program,
              const std::string& examples) {
  CLI::App* start = parent->add_subcommand(
      "start",
      StrCat("Start ", program, " in the foreground; flags are its own.\n\nExamples:\n", examples));
  start->prefix_command();
  start->set_help_flag();
  start->callback([context, program, start] {
    absl::Status status = context->Ready();
    const Settings::Value& memory = context->settings.Get("gpu_memory");
    // As of a variable: the program's own flag counts more.
    if (memory.origin != Origin::kDefault) setenv(kGpuMemoryVariable, memory.text.c_str(), 1);
    if (status.ok()) status = Become(program, start->remaining());
    if (!status.ok()) context->Fail(status);
  });
}

void AddWorkerCommands(CLI::App* app, Context* context) {
  CLI::App* worker =
      AddGroup(app, context, "worker", "Start and look at workers: a worker is one server.",
               "  tandem worker start --master 10.0.0.1:7460 --dir /var/lib/tandem\n"
               "  tandem worker ls\n");
  AddStart(worker, context, "tandem-worker",
           "  tandem worker start --master 10.0.0.1:7460 --dir /var/lib/tandem\n");
  AddWorkerSubcommands(worker, context);
}

void AddMasterCommands(CLI::App* app, Context* context) {
  CLI::App* master =
      AddGroup(app, context, "master", "Start and look at the master.",
               "  tandem master start --dir /var/lib/tandem --listen 127.0.0.1:7460\n"
               "  tandem master status\n");
  AddStart(master, context, "tandem-master",
           "  tandem master start --dir /var/lib/tandem --listen 127.0.0.1:7460\n");
  AddFormat(AddCommand(master, context, "status",
                       "Show the master: version, epoch, workers, jobs; -o wide: counters too.",
                       "  tandem master status\n  tandem master status -o json\n",
                       [context] { return MasterStatus(context); }),
            context);
}

void AddKernelCommands(CLI::App* app, Context* context) {
  CLI::App* kernel = AddGroup(app, context, "kernel", "Look at kernels: what can be run.",
                              "  tandem kernel ls\n  tandem kernel show black_scholes\n");
  AddFormat(AddCommand(kernel, context, "ls", "List kernels.",
                       "  tandem kernel ls\n  tandem kernel ls -o name\n",
                       [context] { return ListKernels(context); }),
            context);
  const auto name = std::make_shared<std::string>();
  CLI::App* show =
      AddCommand(kernel, context, "show",
                 "Show a kernel: signature, axes, class and tolerance, how tasks fail.",
                 "  tandem kernel show black_scholes\n",
                 [context, name] { return ShowKernel(context, *name); });
  show->add_option("name", *name, "Its name")->required()->type_name("KERNEL");
  AddFormat(show, context);
}

}  // namespace

void AddClusterCommands(CLI::App* app, Context* context) {
  AddWorkerCommands(app, context);
  AddMasterCommands(app, context);
  AddKernelCommands(app, context);
}

}  // namespace tandem::cli
