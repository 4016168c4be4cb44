// A connection between a worker and the master in virtual time: each direction keeps its order,
// delays, and may be held up (a partition of one or both directions); what is under way when it
// breaks is lost.
//
// Thread-safety: none.
#ifndef TANDEM_TESTS_SIM_NETWORK_H_
#define TANDEM_TESTS_SIM_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "tests/sim/world.h"

namespace tandem::sim {

enum Direction { kToMaster = 0, kToWorker = 1 };

struct Connection {
  uint64_t token = 0;
  bool up = true;
  MonoTime last[2];        // When the last message of each direction arrives.
  MonoTime held_until[2];  // Nothing arrives before.
};
using ConnectionPtr = std::shared_ptr<Connection>;

inline void Send(World* world, const ConnectionPtr& connection, Direction direction,
                 std::function<void()> deliver) {
  if (!connection->up) return;
  MonoTime at = world->now() + world->Random(absl::Microseconds(20), world->weather.delay_max);
  at = std::max({at, connection->last[direction], connection->held_until[direction]});
  connection->last[direction] = at;
  world->queue.At(at, [connection, deliver = std::move(deliver)] {
    if (connection->up) deliver();
  });
}

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_NETWORK_H_
