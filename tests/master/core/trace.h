// Effects as lines of text, for golden traces: one line an effect, in the order in which a shell
// sends them. Thread-safety: pure functions.
#ifndef TANDEM_TESTS_MASTER_CORE_TRACE_H_
#define TANDEM_TESTS_MASTER_CORE_TRACE_H_

#include <string>

#include "master/core/events.h"

namespace tandem::master {

// "" for effects that say nothing.
std::string TraceOf(const Effects& effects);

}  // namespace tandem::master

#endif  // TANDEM_TESTS_MASTER_CORE_TRACE_H_
