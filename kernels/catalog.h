// The built-in kernels as plain data: what a master needs to plan a job, without linking an
// implementation.
//
//   const kernels::CatalogEntry* entry = kernels::FindInCatalog("kmer_count");
//
// The entries come from the same constants as the tables of `tandem_builtin_kernels()`; a test
// holds them equal.
//
// Thread-safety: immutable after first use.
// Ownership: entries live until the program ends.
#ifndef TANDEM_KERNELS_CATALOG_H_
#define TANDEM_KERNELS_CATALOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::kernels {

enum class OutputClass { kUnspecified = 0, kExact = 1, kBitwise = 2, kTolerant = 3 };

struct CatalogEntry {
  std::string name;
  std::string summary;    // one line for people
  std::string signature;  // "spot[n]:f32, rate:f32 -> call[n]:f32": without the name
  uint64_t content_hash = 0;
  OutputClass output_class = OutputClass::kUnspecified;
  double tolerance = 0;                 // class tolerant: bound of the relative error
  std::vector<std::string> split_axes;  // those that a job may split; the first is the default
  double cost_ns = 0;                   // hint: one unit of work on one core
  std::string cost_units;               // hint: units a task, a product such as "k * m"; "1"
  int64_t grain = 0;                    // hint: tasks a leaf; 0 = from the cost
  bool whole_leaf = false;              // float sums: partials merge up the range tree
  bool host_stages = false;             // ragged, with stages on the host around the grid
  std::vector<std::string> faults;      // texts of fault bytes; [0] is "ok"
};

// The built-in kernels in order of their names.
const std::vector<CatalogEntry>& Catalog();

// Null where no built-in kernel has this name.
const CatalogEntry* FindInCatalog(std::string_view name);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_CATALOG_H_
