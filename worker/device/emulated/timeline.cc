#include "worker/device/emulated/timeline.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::worker {

StreamId Timeline::NewStream() {
  streams_.push_back(0);
  return static_cast<StreamId>(streams_.size() - 1);
}

EventId Timeline::NewEvent() {
  events_.push_back(0);
  return static_cast<EventId>(events_.size() - 1);
}

Timeline::Op Timeline::Add(StreamId stream, Line line, double seconds, double now) {
  DCHECK(line != Line::kNone || seconds == 0);
  const Op op = ++last_;
  State& state = open_[op];
  state.line = line;
  state.seconds = seconds;
  DependOn(op, streams_[stream]);
  streams_[stream] = op;
  if (state.waits == 0) Ready(op, now);
  return op;
}

Timeline::Op Timeline::Record(StreamId stream, EventId event, double now) {
  const Op op = Add(stream, Line::kNone, 0, now);
  events_[event] = op;
  return op;
}

Timeline::Op Timeline::Wait(StreamId stream, EventId event, double now) {
  const Op op = ++last_;
  State& state = open_[op];
  DependOn(op, streams_[stream]);
  DependOn(op, events_[event]);
  streams_[stream] = op;
  if (state.waits == 0) Ready(op, now);
  return op;
}

void Timeline::DependOn(Op op, Op earlier) {
  const auto found = open_.find(earlier);
  if (found == open_.end()) return;
  found->second.before.push_back(op);
  ++open_[op].waits;
}

void Timeline::Ready(Op op, double at) {
  const Line line = open_[op].line;
  if (line == Line::kNone) return Begin(op, at);
  const auto index = static_cast<size_t>(line);
  queue_[index].emplace(at, op);
  if (!busy_[index]) BeginNext(line, at);
}

void Timeline::BeginNext(Line line, double at) {
  const auto index = static_cast<size_t>(line);
  busy_[index] = !queue_[index].empty();
  if (!busy_[index]) return;
  const Op op = queue_[index].begin()->second;
  queue_[index].erase(queue_[index].begin());
  Begin(op, at);
}

void Timeline::Begin(Op op, double at) {
  running_.emplace(at + open_[op].seconds, rng_.Next(), op);
}

void Timeline::Advance(double now, std::vector<Ended>* ended) {
  while (!running_.empty() && std::get<0>(*running_.begin()) <= now) {
    const double at = std::get<0>(*running_.begin());
    if (at == kNever) return;
    const Op op = std::get<2>(*running_.begin());
    running_.erase(running_.begin());
    const State state = std::move(open_[op]);
    open_.erase(op);
    ended->push_back({op, at});
    if (state.line != Line::kNone) BeginNext(state.line, at);
    for (const Op next : state.before) {
      if (--open_[next].waits == 0) Ready(next, at);
    }
  }
}

std::vector<Timeline::Op> Timeline::Abandon() {
  std::vector<Op> ops;
  for (const auto& [op, state] : open_) ops.push_back(op);
  open_.clear();
  running_.clear();
  for (size_t line = 0; line < 4; ++line) {
    queue_[line].clear();
    busy_[line] = false;
  }
  return ops;
}

}  // namespace tandem::worker
