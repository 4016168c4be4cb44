// How workers shared out single leases among their devices, in words and numbers:
//
//   tasks [4096,8192) at w1: gpu 3,240 in 1.9ms, cpu 856 in 1.9ms; gpu is bound by copy up
//   tasks [8192,12288) of [8192,16384), the rest went elsewhere, at w1: cpu alone, 4,096 in 8ms; …
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_SERVER_EXPLAIN_LEASES_H_
#define TANDEM_MASTER_SERVER_EXPLAIN_LEASES_H_

#include <string>
#include <vector>

#include "tandem/v1/cluster.pb.h"
#include "tandem/v1/usage.pb.h"

namespace tandem::master {

std::string LeaseSentence(const v1::LeaseSplit& lease);

// Findings LEASE: of those that took the longest, in the order in which they ended; none where only
// CPUs had any.
std::vector<v1::Finding> ExplainLeases(const std::vector<v1::LeaseSplit>& leases);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_EXPLAIN_LEASES_H_
