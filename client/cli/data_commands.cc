// `tandem data put | ls | get | rm | du`.
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "client/cli/context.h"
#include "client/cli/interrupt.h"
#include "client/cli/job_text.h"
#include "client/cli/out_file.h"
#include "client/cli/progress.h"
#include "client/lib/hash_cache.h"
#include "client/lib/input_file.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShortId = 16;   // Of 64 digits, in tables.
constexpr size_t kPrefixMin = 4;  // Digits that may stand for a blob.

struct DataFlags {
  std::vector<std::string> files, ids;
  std::string id, out;
  bool quiet = false, force = false, unused = false;
};
using DataFlagsPtr = std::shared_ptr<DataFlags>;

// Reads the files for their content's names, until Ctrl-C.
absl::StatusOr<std::vector<client::Upload>> UploadsOf(const std::vector<std::string>& files) {
  const OnInterrupt on_interrupt(client::InputFile::StopReading);
  std::vector<client::Upload> uploads;
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(client::ByteSource source, client::ByteSource::OfFile(path));
    ASSIGN_OR_RETURN(const BlobId id, client::HashCache::OfUser()->IdOf(source));
    uploads.push_back({id, std::move(source), path});
  }
  return uploads;
}

absl::Status PutFiles(Context* context, const DataFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  CatchInterrupts();
  ASSIGN_OR_RETURN(const std::vector<client::Upload> uploads, UploadsOf(flags.files));
  uint64_t sent = 0;
  {
    Progress progress(stderr, context->progress_style(flags.quiet), "upload", "bytes",
                      Clock::Real());
    const OnInterrupt on_interrupt([client] { client->StopWaiting(); });
    ASSIGN_OR_RETURN(sent, client->Upload(uploads, [&](uint64_t done, uint64_t total) {
      progress.Update(done, total, "");
    }));
  }
  Table table("uploads", {{"ID"}, {"SIZE"}, {"FILE"}});
  uint64_t total = 0;
  for (const client::Upload& upload : uploads) {
    total += upload.source.size();
    table.Add({upload.id.ToHex(), HumanSize(upload.source.size()), upload.what},
              {{"id", upload.id.ToHex()}, {"bytes", upload.source.size()}, {"file", upload.what}});
  }
  std::cout << table.Render(context->format());
  if (!flags.quiet) {
    std::cerr << HumanSize(sent) << " of " << HumanSize(total) << " sent"
              << (sent < total ? "; the master had the rest\n" : "\n");
  }
  return absl::OkStatus();
}

std::string UsersText(const client::BlobSummary& blob) {
  std::string text;
  for (const JobId job : blob.jobs) StrAppend(&text, text.empty() ? "" : ",", job);
  if (blob.job_count > blob.jobs.size()) text += ",…";
  return text.empty() ? "-" : text;
}

std::string BlobStateName(const client::BlobSummary& blob) {
  if (blob.unfinished) return "UNFINISHED";
  return blob.in_use ? "IN USE" : "KEPT";
}

Json BlobJson(const client::BlobSummary& blob) {
  Json jobs = Json::array();
  for (const JobId job : blob.jobs) jobs.push_back(job.value());
  return {{"id", blob.id.ToHex()},
          {"bytes", blob.size},
          {"created", TimeJson(blob.created)},
          {"jobs", jobs},
          {"job_count", blob.job_count},
          {"in_use", blob.in_use},
          {"unfinished", blob.unfinished}};
}

absl::Status ListBlobs(Context* context) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const auto blobs, client->ListBlobs());
  const bool brief = context->format() == Format::kTable;
  Table table("blobs", {{"ID"}, {"SIZE"}, {"CREATED"}, {"STATE"}, {"JOBS"}});
  for (const client::BlobSummary& blob : blobs) {
    const std::string hex = blob.id.ToHex();
    table.Add({brief ? hex.substr(0, kShortId) : hex, HumanSize(blob.size), TimeText(blob.created),
               BlobStateName(blob), UsersText(blob)},
              BlobJson(blob));
  }
  std::cout << table.Render(context->format());
  return absl::OkStatus();
}

// A whole id, or the first digits of one that is there.
absl::StatusOr<BlobId> FindBlob(client::Client* client, const std::string& text) {
  if (const absl::StatusOr<BlobId> whole = BlobId::FromHex(text); whole.ok()) return whole;
  const bool hex = text.size() >= kPrefixMin && text.size() < 2 * BlobId::kBytes &&
                   text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) {
    return InvalidError(reason::kBadArgument,
                        StrCat(Quoted(text), " names no blob; give the ", 2 * BlobId::kBytes,
                               " digits that `tandem data ls -o name` shows, or the first ",
                               kPrefixMin, " or more"));
  }
  ASSIGN_OR_RETURN(const auto blobs, client->ListBlobs());
  std::vector<BlobId> found;
  for (const client::BlobSummary& blob : blobs) {
    if (blob.id.ToHex().starts_with(text)) found.push_back(blob.id);
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return Error(absl::StatusCode::kNotFound, reason::kBlobNotFound,
                 StrCat("no blob of yours begins with ", text, "; `tandem data ls` lists them"));
  }
  return InvalidError(reason::kAmbiguous,
                      StrCat(text, " stands for ", found.size(), " blobs, such as ",
                             found[0].ToHex(), " and ", found[1].ToHex(), "; give more digits"));
}

absl::Status GetBlob(Context* context, const DataFlags& flags) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  RETURN_IF_ERROR(CheckOutFile(flags.out, 0, flags.force));
  ASSIGN_OR_RETURN(const BlobId id, FindBlob(client, flags.id));
  CatchInterrupts();
  ASSIGN_OR_RETURN(OutFile file, OutFile::Create(flags.out));
  Progress progress(stderr, context->progress_style(flags.quiet), "download", "bytes",
                    Clock::Real());
  uint64_t done = 0, size = 0;
  RETURN_IF_ERROR(client->ReadBlob(id, &size, [&](std::string_view bytes) {
    done += bytes.size();
    progress.Update(done, std::max(done, size), "");
    return file.Write(bytes);
  }));
  return file.Close();
}

absl::Status RemoveBlobs(Context* context, const DataFlags& flags) {
  if (flags.unused != flags.ids.empty()) {
    return InvalidError(reason::kBadArgument,
                        flags.unused ? "give the blobs to delete or --unused, which deletes every "
                                       "blob that no unfinished job uses, not both"
                                     : "give the blobs to delete, or --unused");
  }
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  std::vector<BlobId> blobs;
  for (const std::string& text : flags.ids) {
    ASSIGN_OR_RETURN(blobs.emplace_back(), FindBlob(client, text));
  }
  if (flags.unused) {
    ASSIGN_OR_RETURN(const auto all, client->ListBlobs());
    for (const client::BlobSummary& blob : all) {
      if (!blob.in_use && !blob.unfinished) blobs.push_back(blob.id);
    }
  }
  Table table("deletions", {{"ID"}, {"SIZE"}});
  context->BeginList("deletions");
  for (const BlobId& blob : blobs) {
    const absl::StatusOr<uint64_t> bytes = client->DeleteBlob(blob);
    // What a job has begun to use, or another command has deleted, meanwhile is no longer unused.
    const bool unwanted =
        ReasonOf(bytes.status()) == reason::kBlobInUse || absl::IsNotFound(bytes.status());
    if (flags.unused && unwanted) continue;
    if (!bytes.ok()) {
      context->Fail(bytes.status());
      continue;
    }
    table.Add({blob.ToHex(), HumanSize(*bytes)}, {{"id", blob.ToHex()}, {"bytes", *bytes}});
  }
  context->Print(table);
  context->EndList();
  return absl::OkStatus();
}

absl::Status ShowUsage(Context* context) {
  ASSIGN_OR_RETURN(client::Client * client, context->client());
  ASSIGN_OR_RETURN(const client::DiskUsage usage, client->GetDiskUsage());
  Table table("usages", {{"KIND"}, {"YOURS"}, {"FILES"}, {"EVERYBODY'S"}, {"FILES"}});
  for (const client::KindUsage& kind : usage.kinds) {
    table.Add({kind.kind, HumanSize(kind.owner_bytes), StrCat(kind.owner_files),
               HumanSize(kind.bytes), StrCat(kind.files)},
              {{"name", kind.kind},
               {"owner_bytes", kind.owner_bytes},
               {"owner_files", kind.owner_files},
               {"bytes", kind.bytes},
               {"files", kind.files},
               {"disk_bytes", usage.disk_bytes},
               {"disk_free_bytes", usage.disk_free_bytes}});
  }
  std::cout << table.Render(context->format());
  if (!context->json() && usage.disk_bytes > 0) {
    std::cerr << HumanSize(usage.disk_free_bytes) << " of the disk's "
              << HumanSize(usage.disk_bytes) << " are free\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddDataCommands(CLI::App* app, Context* context) {
  CLI::App* data = AddGroup(app, context, "data", "Blobs: what jobs' operands were uploaded as.",
                            "  tandem data put genome.fa\n  tandem data ls\n");
  const auto flags = std::make_shared<DataFlags>();
  CLI::App* put =
      AddCommand(data, context, "put", "Upload files; what the master has is not sent again.",
                 "  tandem data put genome.fa\n  tandem data put *.npy -o name\n",
                 [context, flags] { return PutFiles(context, *flags); });
  put->add_option("files", flags->files, "The files")->required()->type_name("FILE");
  put->add_flag("-q,--quiet", flags->quiet, "No progress");
  AddFormat(put, context);
  AddFormat(AddCommand(data, context, "ls", "List blobs, and uploads that were not finished.",
                       "  tandem data ls\n  tandem data ls -o json\n",
                       [context] { return ListBlobs(context); }),
            context);
  CLI::App* get = AddCommand(data, context, "get", "Fetch a blob's bytes.",
                             "  tandem data get 3f786850e387550f --out genome.fa\n"
                             "  tandem data get 3f78 --out - | head\n",
                             [context, flags] { return GetBlob(context, *flags); });
  get->add_option("blob", flags->id, "Its id, or the id's first digits")
      ->required()
      ->type_name("BLOB");
  get->add_option("--out", flags->out, "Where to; - for stdout")->required()->type_name("PATH");
  get->add_flag("--force", flags->force, "Overwrite what is there");
  get->add_flag("-q,--quiet", flags->quiet, "No progress");
  CLI::App* remove = AddCommand(data, context, "rm", "Delete blobs that no unfinished job uses.",
                                "  tandem data rm 3f786850e387550f\n  tandem data rm --unused\n",
                                [context, flags] { return RemoveBlobs(context, *flags); });
  remove->add_option("blobs", flags->ids, "Their ids, or the ids' first digits")->type_name("BLOB");
  remove->add_flag("--unused", flags->unused, "Every blob that no unfinished job uses");
  AddFormat(remove, context);
  AddFormat(AddCommand(data, context, "du", "Show what is on the master's disk, by kind.",
                       "  tandem data du\n", [context] { return ShowUsage(context); }),
            context);
}

}  // namespace tandem::cli
