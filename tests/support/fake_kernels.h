// Small kernels, written against the C ABI by hand, for tests of the device and the executor: each
// one does something that can go wrong in a way of its own.
//
//   double_it     x[n]:f32 -> y[n]:f32; a negative x fails
//   tally         axis n, step:i32 = 1 -> count[4]:u64 : sum, seen:u64 : sum; exact
//   float_sum     x[n]:f32 -> total:f32 : sum; whole leaves, and the order of additions shows
//   shout         text[n]:bytes -> loud[n]:bytes; host stages; an empty text fails
//   window_sum    base[n + width - 1]:u8, width:i32 -> total[n]:u32; needs scratch
//   column_sum    axis n, x[k,n]:f32 -> y[n]:f32: slices along n are strided
//   scaled        x[n]:f32, table[m]:f32 -> y[n]:f32, top:f32 : max: a map beside a reduction
//   listed        x[n]:i32 -> list[n]:i32 : merge, listed:i64 : merge; a merge of its own: the list
//                 in order, and how many of it are not negative; those fail and are listed as 0
//   loose         x[n]:f32 -> y[n]:f32; tolerant: the last task of each call comes out otherwise
//   die_at        axis n, at:i64 -> y[n]:u8: the process dies at task `at`; -1: at every task
//   hang_at       axis n, at:i64 -> y[n]:u8: task `at` returns when HangsReleased(), or never
//
// Thread-safety: pure functions. Ownership: tables live until the program ends.
#ifndef TANDEM_TESTS_SUPPORT_FAKE_KERNELS_H_
#define TANDEM_TESTS_SUPPORT_FAKE_KERNELS_H_

#include <atomic>
#include <string_view>

#include "kernels/sdk/include/tandem/abi.h"

namespace tandem::testing {

const TandemLibraryV1* FakeKernels();
// The build for x86-64-v2, which has `loose` alone; it yields twice as much there.
const TandemLibraryV1* FakeBaseline();
// REQUIRES: there is one of that name.
const TandemKernelV1* FakeKernel(std::string_view name);
// Lets hang_at go on, in this process.
std::atomic<bool>& HangsReleased();
// How often a task of hang_at has come to where it hangs, in this process.
std::atomic<int>& HangsBegun();

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_FAKE_KERNELS_H_
