#include "common/wire/kernel.h"

#include <cmath>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/wire/decode_util.h"
#include "common/wire/lease_messages.h"

namespace tandem::wire {
namespace {

constexpr size_t kSignatureBytesMax = 16 << 10;
constexpr int kFaultsMax = 253;  // Fault bytes below the SDK's own (abi.h).
constexpr int kSplitAxesMax = 64;

absl::Status TakeTexts(google::protobuf::RepeatedPtrField<std::string>* from, int items_max,
                       std::string_view field, std::vector<std::string>* to) {
  if (from->size() > items_max) return Malformed(field, StrCat("has more than ", items_max));
  for (int i = 0; i < from->size(); ++i) {
    RETURN_IF_ERROR(CheckText(from->Get(i), WireLimits::kNameBytes, Indexed(field, i)));
    to->push_back(std::move(*from->Mutable(i)));
  }
  return absl::OkStatus();
}

absl::Status CheckCost(const v1::Kernel& from) {
  if (!std::isfinite(from.cost_ns_per_unit()) || from.cost_ns_per_unit() < 0) {
    return Malformed("cost_ns_per_unit", "is not a finite number of at least 0");
  }
  if (!std::isfinite(from.tolerance()) || from.tolerance() < 0) {
    return Malformed("tolerance", "is not a finite number of at least 0");
  }
  return CheckText(from.cost_units(), WireLimits::kNameBytes, "cost_units");
}

}  // namespace

void Encode(const KernelInfo& from, v1::Kernel* to) {
  to->set_name(from.name);
  to->set_signature(from.signature.ToString());
  to->set_content_hash(from.content_hash);
  to->set_output_class(static_cast<v1::OutputClass>(from.output_class));
  to->set_cost_ns_per_unit(from.cost.ns_per_unit);
  to->set_cost_units(from.cost.units);
  to->set_grain_hint(from.cost.grain);
  for (const std::string& fault : from.fault_reasons) to->add_faults(fault);
  to->set_summary(from.summary);
  to->set_tolerance(from.tolerance);
  for (const std::string& axis : from.split_axes) to->add_split_axes(axis);
  to->set_whole_leaf(from.whole_leaf);
  to->set_host_stages(from.host_stages);
}

absl::Status Decode(v1::Kernel* from, KernelInfo* to) {
  *to = KernelInfo();
  if (from->name().empty()) return Malformed("name", "is missing");
  RETURN_IF_ERROR(CheckText(from->name(), WireLimits::kNameBytes, "name"));
  RETURN_IF_ERROR(CheckText(from->signature(), kSignatureBytesMax, "signature"));
  absl::StatusOr<Signature> signature = Signature::Parse(from->signature());
  if (!signature.ok()) return WithField(std::move(signature).status(), "signature");
  if (from->content_hash() == 0) return Malformed("content_hash", "is missing");
  switch (from->output_class()) {
    case v1::EXACT:
    case v1::BITWISE:
    case v1::TOLERANT:
      to->output_class = static_cast<OutputClass>(from->output_class());
      break;
    default:
      return Malformed("output_class", StrCat("is ", static_cast<int>(from->output_class()),
                                              ", none of EXACT, BITWISE and TOLERANT"));
  }
  RETURN_IF_ERROR(CheckCost(*from));
  RETURN_IF_ERROR(CheckText(from->summary(), WireLimits::kReasonBytes, "summary"));
  to->name = std::move(*from->mutable_name());
  to->signature = *std::move(signature);
  to->content_hash = from->content_hash();
  to->cost = {from->cost_ns_per_unit(), std::move(*from->mutable_cost_units()), from->grain_hint()};
  to->tolerance = from->tolerance();
  to->whole_leaf = from->whole_leaf();
  to->host_stages = from->host_stages();
  to->summary = std::move(*from->mutable_summary());
  RETURN_IF_ERROR(
      TakeTexts(from->mutable_split_axes(), kSplitAxesMax, "split_axes", &to->split_axes));
  return TakeTexts(from->mutable_faults(), kFaultsMax, "faults", &to->fault_reasons);
}

}  // namespace tandem::wire
