// Client: results on their way down.
#include <utility>

#include "client/lib/client_impl.h"
#include "client/lib/read_items.h"
#include "client/lib/texts.h"
#include "common/base/status_macros.h"

namespace tandem::client {

absl::Status Client::ReadOutput(JobId job, const std::string& output,
                                const TaskSelection& selection, Sink sink) {
  RETURN_IF_ERROR(CheckText("output", output));
  v1::ReadOutputRequest request;
  request.set_job(job.value());
  request.set_output(output);
  request.set_first_task(selection.first_task);
  request.set_task_count(selection.task_count);
  request.set_failed_as_zero(selection.failed_as_zero);
  request.set_when_ended(selection.when_ended);
  RETURN_IF_ERROR(impl_->AwaitGreeting());
  grpc::ClientContext context;
  impl_->Prepare(&context);
  const auto reader = impl_->data->ReadOutput(&context, request);
  return impl_->ReadChunks(&context, reader.get(), sink);
}

absl::StatusOr<uint64_t> Client::DoneUntil(JobId job, const std::string& output, uint64_t from) {
  RETURN_IF_ERROR(CheckText("output", output));
  v1::ListOutputRequest request;
  request.set_job(job.value());
  request.set_output(output);
  request.set_first_task(from);
  do {
    v1::ListOutputResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->lists.get(), &v1::Data::Stub::ListOutput, request, &response));
    for (const v1::OutputRun& run : response.runs()) {
      if (run.first_task() > from) return from;
      from = run.first_task() + run.task_count();
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return from;
}

absl::Status Client::ReadItems(JobId job, const std::string& output, const TaskSelection& selection,
                               ItemSink sink) {
  const uint64_t end =
      selection.task_count == 0 ? ~uint64_t{0} : selection.first_task + selection.task_count;
  RETURN_IF_ERROR(CheckText("output", output));
  v1::ListOutputRequest request;
  request.set_job(job.value());
  request.set_output(output);
  request.set_first_task(selection.first_task);
  do {
    v1::ListOutputResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->lists.get(), &v1::Data::Stub::ListOutput, request, &response));
    for (v1::OutputRun& run : *response.mutable_runs()) {
      if (run.first_task() >= end) return absl::OkStatus();
      std::string bytes;
      if (run.piece().has_region()) {
        v1::ReadRegionRequest region;
        region.mutable_region()->Swap(run.mutable_piece()->mutable_region());
        grpc::ClientContext context;
        impl_->Prepare(&context);
        const auto reader = impl_->data->ReadRegion(&context, region);
        v1::Chunk chunk;
        while (reader->Read(&chunk)) bytes += chunk.data();
        RETURN_IF_ERROR(rpc::FromGrpc(reader->Finish()));
      } else {
        bytes = std::move(*run.mutable_piece()->mutable_inline_());
      }
      ASSIGN_OR_RETURN(const ItemTable items, ItemTable::Of(bytes, run.piece_tasks()));
      for (uint64_t i = 0; i < run.task_count() && run.first_task() + i < end; ++i) {
        RETURN_IF_ERROR(sink(run.first_task() + i, items.Item(run.skip_tasks() + i)));
      }
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

}  // namespace tandem::client
