#include "kernels/kmer_count/kmer_count_ref.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace tandem::kernels {
namespace {

constexpr std::string_view kBases = "ACGT";

std::string ReverseComplement(const std::string& word) {
  std::string reverse(word.rbegin(), word.rend());
  for (char& c : reverse) c = kBases[3 - kBases.find(c)];
  return reverse;
}

size_t IndexOf(const std::string& word) {
  size_t index = 0;
  for (char c : word) index = index * 4 + kBases.find(c);
  return index;
}

}  // namespace

std::vector<uint32_t> KmerCountReference(std::string_view base, int k, bool canonical) {
  std::map<std::string, uint32_t> seen;
  for (size_t i = 0; i + k <= base.size(); ++i) {
    std::string word(base.substr(i, k));
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::toupper(c); });
    if (word.find_first_not_of(kBases) != std::string::npos) continue;
    if (canonical) word = std::min(word, ReverseComplement(word));
    ++seen[word];
  }
  std::vector<uint32_t> count(size_t{1} << (2 * k));
  for (const auto& [word, n] : seen) count[IndexOf(word)] = n;
  return count;
}

}  // namespace tandem::kernels
