// Everything that the header of a kernel includes. Freestanding: no standard library, Abseil, TBB
// or CUDA header.
//
// A kernel is a struct in namespace TANDEM_KERNELS. It has
//
//  - kName and kSignature, what it is called and what it computes ("x[n]:f32, a:f32 -> y[n]:f32");
//  - kClass, OutputClass::kExact, kBitwise or kTolerant, the last with kTolerance;
//  - kCostNs, a hint: nanoseconds a unit of work on one core;
//  - Args, the signature's layout (abi.h), as far as the kernel reads it;
//  - one form (below);
//
// and may have kSummary, a line for people; kFaults, {"ok", "reason of fault 1", …}; kCostUnits,
// the units of work of a task as an expression of extents and scalars ("k * m"; "1" without it);
// and kGrain, a hint: tasks a leaf. The forms:
//
//  - Each(Task, const Args&): a map; returns void or Fault;
//  - Each(Task, const Args&, Partial&): a reduction (reduce.h);
//  - Block(const Group&, Task, const Args&): a block or warp a task (group.h), with
//    SharedBytes(const Args&) and kTaskThreads;
//  - Measure, Prepare, Item, Finish: host stages around a grid (stage.h);
//  - Cpu(const Run&, const Args&), Launch(…): own loops and launches.
//
// A map or reduction may add Range(const Run&, const Args&[, Partial&]), a faster CPU loop with the
// same bytes that returns how many tasks failed, with ScratchBytes(const Args&) if it needs
// scratch; and Cheap(…) as Each, a shorter way for paced emulation. A kernel with an output `:
// merge` has PartialBytes(const Args&, tasks), InitPartial(const Args&, void*) and Merge(const
// Args&, into, into_tasks, from, from_tasks), and finds its partial in Run.
//
// Thread-safety: types and pure functions.
#ifndef TANDEM_BODY_H_
#define TANDEM_BODY_H_

#include "tandem/config.h"
#include "tandem/dot.h"
#include "tandem/f16.h"
#include "tandem/group.h"
#include "tandem/math.h"
#include "tandem/philox.h"
#include "tandem/reduce.h"
#include "tandem/stage.h"
#include "tandem/task.h"

#endif  // TANDEM_BODY_H_
