#include "worker/executor/args.h"

#include <cstring>

namespace tandem::worker {
namespace {

// Appends fields with their natural alignment.
class Packer {
 public:
  uint32_t Put(const void* value, size_t size) {
    const size_t at = (bytes_.size() + size - 1) / size * size;
    bytes_.resize(at + size);
    std::memcpy(bytes_.data() + at, value, size);
    return static_cast<uint32_t>(at);
  }
  uint32_t PutWord(int64_t value) { return Put(&value, sizeof(value)); }
  std::vector<uint64_t> Words() const {
    std::vector<uint64_t> words((bytes_.size() + 7) / 8);
    if (!bytes_.empty()) std::memcpy(words.data(), bytes_.data(), bytes_.size());
    return words;
  }

 private:
  std::vector<char> bytes_;
};

}  // namespace

ArgsTemplate::ArgsTemplate(const BoundJob& job) {
  const Signature& signature = job.kernel.signature;
  Packer packer;
  operand_at_.resize(signature.operands().size());
  for (const Signature::Input& input : signature.inputs()) {
    const auto index = static_cast<size_t>(input.index);
    if (input.kind == Signature::InputKind::kOperand) {
      operand_at_[index] = packer.PutWord(0);
    } else {
      packer.Put(job.scalars[index].data(), job.scalars[index].size());
    }
  }
  for (const OutputSig& output : signature.outputs()) {
    output_at_.push_back(output.reduction == Reduction::kNone ? packer.PutWord(0) : kNone);
  }
  for (size_t axis = 0; axis < job.axes.size(); ++axis) {
    const bool split = static_cast<int>(axis) == job.split_axis_index;
    const uint32_t at = packer.PutWord(split ? 0 : job.axes[axis]);
    if (split) rows_at_ = at;
  }
  packer.PutWord(job.split_axis_index);
  words_ = packer.Words();
}

void ArgsTemplate::Fill(absl::Span<const void* const> operands, absl::Span<void* const> outputs,
                        uint64_t rows, ArgWords* words) const {
  words->assign(words_.begin(), words_.end());
  char* bytes = reinterpret_cast<char*>(words->data());
  const auto put = [bytes](uint32_t at, const void* value) { std::memcpy(bytes + at, value, 8); };
  for (size_t i = 0; i < operands.size(); ++i) put(operand_at_[i], &operands[i]);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (output_at_[i] != kNone) put(output_at_[i], &outputs[i]);
  }
  put(rows_at_, &rows);
}

}  // namespace tandem::worker
