// Timeline: when the operations of an emulated device begin and end: streams, events, and three
// lines that each do one thing at a time: copies up, grids, copies down.
//
//   const Timeline::Op copy = timeline.Add(stream, Line::kUp, seconds, now);
//   timeline.Advance(now, &ended);     // in the order in which they end
//
// An operation begins when its stream has come to it, the events that it waits for are reached and
// its line is free; a line takes the one that was ready first. Operations that end at the same time
// end in an order drawn from `seed`, so that a program that counts on more order than streams and
// events give is found out.
//
// Pure: time is what is passed in. Thread-safety: one thread.
#ifndef TANDEM_WORKER_DEVICE_EMULATED_TIMELINE_H_
#define TANDEM_WORKER_DEVICE_EMULATED_TIMELINE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "common/base/rng.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

enum class Line { kNone, kUp, kGrid, kDown };  // kNone: takes no time and needs no line

class Timeline {
 public:
  using Op = uint64_t;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Ended {
    Op op = 0;
    double at = 0;
  };

  explicit Timeline(uint64_t seed) : rng_(seed) {}

  StreamId NewStream();
  EventId NewEvent();
  bool HasStream(StreamId stream) const { return stream < streams_.size(); }
  bool HasEvent(EventId event) const { return event < events_.size(); }

  // Behind what the stream has. `seconds` may be kNever. REQUIRES: `now` is no earlier than in any
  // call before; the line is kNone only for seconds == 0.
  Op Add(StreamId stream, Line line, double seconds, double now);
  // As an operation that takes no time; `event` means it from now on.
  Op Record(StreamId stream, EventId event, double now);
  Op Wait(StreamId stream, EventId event, double now);
  // 0: it was never recorded.
  Op OpOf(EventId event) const { return events_[event]; }

  // When something ends next; kNever: nothing runs.
  double next() const { return running_.empty() ? kNever : std::get<0>(*running_.begin()); }
  // Ends what ends by `now`; what becomes ready begins.
  void Advance(double now, std::vector<Ended>* ended);
  // Everything that has not ended is dropped, in the order in which it was added.
  std::vector<Op> Abandon();

 private:
  struct State {
    Line line = Line::kNone;
    double seconds = 0;
    uint32_t waits = 0;  // for so many others
    std::vector<Op> before;
  };

  void DependOn(Op op, Op earlier);
  void Ready(Op op, double at);
  void BeginNext(Line line, double at);
  void Begin(Op op, double at);

  Rng rng_;
  Op last_ = 0;
  std::vector<Op> streams_;  // the last operation of each
  std::vector<Op> events_;
  std::map<Op, State> open_;
  std::set<std::pair<double, Op>> queue_[4];  // ready, a line each
  bool busy_[4] = {};
  std::set<std::tuple<double, uint64_t, Op>> running_;  // by end, then by lot
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_EMULATED_TIMELINE_H_
