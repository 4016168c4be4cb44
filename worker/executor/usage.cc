#include "worker/executor/usage.h"

namespace tandem::worker {
namespace {

uint64_t TakeAll(std::atomic<uint64_t>* counter) {
  // Most often there is nothing, and a look costs less than an exchange.
  if (counter->load(std::memory_order_relaxed) == 0) return 0;
  return counter->exchange(0, std::memory_order_relaxed);
}

}  // namespace

void Usage::Take(OperandUsage* operands, tandem::v1::Usage* to) {
  to->set_pieces(pieces);
  to->set_tasks(tasks);
  to->set_body_ns(body_ns);
  to->set_host_ns(host_ns);
  to->set_stall_ns(stall_ns);
  to->set_fetch_ns(fetch_ns);
  to->set_inline_output_bytes(inline_output_bytes);
  to->set_pushed_output_bytes(pushed_output_bytes);
  to->set_merges(merges);
  to->set_merge_ns(merge_ns);
  to->set_partials(partials);
  to->set_up_ns(up_ns);
  to->set_grid_ns(grid_ns);
  to->set_down_ns(down_ns);
  to->set_bytes_up(bytes_up);
  to->set_bytes_down(bytes_down);
  to->set_fetched_bytes(TakeAll(&operands->fetched_bytes));
  to->set_mapped_bytes(TakeAll(&operands->mapped_bytes));
  to->set_path_bytes(TakeAll(&operands->path_bytes));
  to->set_generated_bytes(TakeAll(&operands->generated_bytes));
  *this = Usage();
}

}  // namespace tandem::worker
