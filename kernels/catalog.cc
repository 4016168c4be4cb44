#include "kernels/catalog.h"

#include <algorithm>
#include <sstream>

#include "tandem/register.h"
//
#include "catalog_headers.inc"

namespace tandem::kernels {
namespace {

// Only constants of the kernel are read: no body is instantiated.
template <class K>
CatalogEntry Describe(uint64_t content_hash) {
  CatalogEntry entry;
  entry.name = K::kName;
  entry.summary = SummaryOf<K>::value;
  entry.signature = K::kSignature;
  entry.content_hash = content_hash;
  entry.output_class = static_cast<OutputClass>(K::kClass);
  entry.tolerance = ToleranceOf<K>::value;
  std::istringstream axes(kTaskAxes<K>.text);
  for (std::string axis; axes >> axis;) entry.split_axes.push_back(axis);
  entry.cost_ns = K::kCostNs;
  entry.cost_units = CostUnitsOf<K>::value;
  entry.grain = GrainOf<K>::value;
  entry.whole_leaf = InLanes<K>();
  entry.host_stages = kHasItem<K>;
  entry.faults.assign(FaultsOf<K>::value, FaultsOf<K>::value + FaultsOf<K>::count);
  return entry;
}

std::vector<CatalogEntry> MakeCatalog() {
  std::vector<CatalogEntry> entries;
#define CATALOG_ENTRY(Kernel, hash) entries.push_back(Describe<TANDEM_KERNELS::Kernel>(hash));
#include "catalog_entries.inc"
#undef CATALOG_ENTRY
  std::ranges::sort(entries, {}, &CatalogEntry::name);
  return entries;
}

}  // namespace

const std::vector<CatalogEntry>& Catalog() {
  static const auto* const catalog = new std::vector<CatalogEntry>(MakeCatalog());
  return *catalog;
}

const CatalogEntry* FindInCatalog(std::string_view name) {
  for (const CatalogEntry& entry : Catalog()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace tandem::kernels
