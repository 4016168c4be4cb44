#include "worker/server/notes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/time/time.h"
#include "common/wire/decode_util.h"
#include "common/wire/lease_messages.h"

namespace tandem::worker {
namespace {

// What a master takes.
constexpr size_t kNotesMax = 64;
constexpr size_t kLateMax = 16;

std::string OneLine(const std::string& text) {
  std::string line = wire::CleanText(text, wire::WireLimits::kReasonBytes);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

}  // namespace

void Notes::Set(const std::string& key, Note note) {
  if (notes_.size() >= kNotesMax && !notes_.contains(key)) return;
  notes_[key] = std::move(note);
  changed_ = true;
}

void Notes::Clear(const std::string& key) { changed_ |= notes_.erase(key) > 0; }

void Notes::SetLate(const std::vector<LateStart>& late) {
  changed_ |= !late.empty() || late_.late_size() > 0;
  late_.Clear();
  for (size_t i = 0; i < std::min(late.size(), kLateMax); ++i) {
    const Started& started = late[i].started;
    worker::v1::LateRun* run = late_.add_late();
    run->set_job(started.job);
    run->set_first_leaf(started.first_leaf);
    run->set_leaf_count(started.leaf_count);
    if (started.task.has_value()) run->set_task_plus_1(*started.task + 1);
    run->set_device(late[i].device);
    run->set_running_ns(absl::ToInt64Nanoseconds(late[i].running));
  }
}

bool Notes::Take(worker::v1::WorkerMessage* message) {
  if (!std::exchange(changed_, false)) return false;
  worker::v1::WorkerNotes* notes = message->add_notes();
  *notes = late_;
  for (const auto& [key, note] : notes_) {
    tandem::v1::Finding* finding = notes->add_findings();
    finding->set_token(note.token);
    finding->set_what(OneLine(note.what));
    finding->set_advice(OneLine(note.advice));
  }
  return true;
}

}  // namespace tandem::worker
