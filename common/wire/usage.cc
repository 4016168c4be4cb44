#include "common/wire/usage.h"

namespace tandem::wire {

void AddUsage(const v1::Usage& from, v1::Usage* to) {
  to->set_pieces(to->pieces() + from.pieces());
  to->set_tasks(to->tasks() + from.tasks());
  to->set_body_ns(to->body_ns() + from.body_ns());
  to->set_host_ns(to->host_ns() + from.host_ns());
  to->set_stall_ns(to->stall_ns() + from.stall_ns());
  to->set_fetch_ns(to->fetch_ns() + from.fetch_ns());
  to->set_fetched_bytes(to->fetched_bytes() + from.fetched_bytes());
  to->set_mapped_bytes(to->mapped_bytes() + from.mapped_bytes());
  to->set_path_bytes(to->path_bytes() + from.path_bytes());
  to->set_generated_bytes(to->generated_bytes() + from.generated_bytes());
  to->set_inline_output_bytes(to->inline_output_bytes() + from.inline_output_bytes());
  to->set_pushed_output_bytes(to->pushed_output_bytes() + from.pushed_output_bytes());
  to->set_pushes(to->pushes() + from.pushes());
  to->set_push_ns(to->push_ns() + from.push_ns());
  to->set_merges(to->merges() + from.merges());
  to->set_merge_ns(to->merge_ns() + from.merge_ns());
  to->set_partials(to->partials() + from.partials());
  to->set_up_ns(to->up_ns() + from.up_ns());
  to->set_grid_ns(to->grid_ns() + from.grid_ns());
  to->set_down_ns(to->down_ns() + from.down_ns());
  to->set_bytes_up(to->bytes_up() + from.bytes_up());
  to->set_bytes_down(to->bytes_down() + from.bytes_down());
}

v1::Usage* UsageSums::Of(uint64_t job, v1::DeviceKind device) { return &sums_[{job, device}]; }

std::vector<v1::JobUsage> UsageSums::Take(size_t count) {
  std::vector<v1::JobUsage> taken;
  auto it = sums_.begin();
  for (; it != sums_.end() && taken.size() < count; ++it) {
    v1::JobUsage& usage = taken.emplace_back();
    usage.set_job(it->first.first);
    usage.set_device(it->first.second);
    *usage.mutable_usage() = std::move(it->second);
  }
  sums_.erase(sums_.begin(), it);
  return taken;
}

}  // namespace tandem::wire
