// The catalog, the tables and the documents say the same, and the model reads every signature as
// the SDK does.
#include "kernels/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/model/signature.h"
#include "tandem/signature.h"
#include "tests/kernels/isa_test.h"

namespace tandem::kernels {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(CatalogTest, HasEveryBuiltInKernelInOrder) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : Catalog()) names.push_back(entry.name);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names,
              ElementsAre("asian_option", "bilateral_filter", "black_scholes", "gemm", "gradient",
                          "histogram", "image_sobel", "image_thumbnail", "kmer_count", "linear",
                          "mandelbrot", "monte_carlo_pi", "noop", "saxpy", "sort", "spin"));
  EXPECT_EQ(FindInCatalog("nothing"), nullptr);
}

class CatalogOfIsaTest : public IsaTest {};
TANDEM_FOR_EACH_ISA(CatalogOfIsaTest);

TEST_P(CatalogOfIsaTest, SaysWhatTheTablesSay) {
  const TandemLibraryV1& library = Builtin();
  ASSERT_EQ(library.kernel_count, Catalog().size());
  for (uint32_t i = 0; i < library.kernel_count; ++i) {
    const TandemKernelV1& kernel = *library.kernels[i];
    const CatalogEntry* entry = FindInCatalog(kernel.name);
    ASSERT_NE(entry, nullptr) << kernel.name;
    EXPECT_EQ(entry->signature, kernel.signature);
    EXPECT_EQ(entry->summary, kernel.summary);
    EXPECT_FALSE(entry->summary.empty());
    EXPECT_EQ(entry->content_hash, kernel.content_hash) << "equal in all builds";
    EXPECT_EQ(static_cast<uint32_t>(entry->output_class), kernel.output_class);
    EXPECT_EQ(entry->tolerance, kernel.tolerance);
    EXPECT_EQ(entry->cost_ns, kernel.cost_ns);
    EXPECT_EQ(entry->cost_units, kernel.cost_units);
    EXPECT_EQ(entry->grain, kernel.grain);
    EXPECT_EQ(entry->whole_leaf, (kernel.flags & TANDEM_WHOLE_LEAF) != 0);
    EXPECT_EQ(entry->host_stages, (kernel.flags & TANDEM_HOST_STAGES) != 0);
    ASSERT_THAT(entry->faults, SizeIs(kernel.fault_count));
    for (uint32_t f = 0; f < kernel.fault_count; ++f) EXPECT_EQ(entry->faults[f], kernel.faults[f]);
    std::string axes;
    for (const std::string& axis : entry->split_axes) axes += (axes.empty() ? "" : " ") + axis;
    EXPECT_EQ(axes, kernel.split_axes);
  }
}

// What the head of a kernel's header names as its source: the paragraph after "Source: ".
std::string SourceOf(const std::string& kernel) {
  std::ifstream header(TANDEM_SOURCE_DIR "/kernels/" + kernel + "/" + kernel + ".h");
  std::string source;
  for (std::string line; std::getline(header, line) && line.starts_with("//");) {
    const bool begins = line.starts_with("// Source: ");
    if (source.empty() && !begins) continue;
    if (line == "//") break;
    source += begins ? line.substr(std::string_view("// Source: ").size()) : line.substr(2);
  }
  if (source.ends_with('.')) source.pop_back();
  return source;
}

// The table of docs/kernels.md, a row a kernel: its cells by its name.
std::map<std::string, std::vector<std::string>> DocumentedKernels() {
  std::ifstream document(TANDEM_SOURCE_DIR "/docs/kernels.md");
  std::map<std::string, std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("## ")) inside = line == "## Built-in kernels";
    if (!inside || !line.starts_with("| `") || !line.ends_with(" |")) continue;
    std::vector<std::string> cells;
    for (size_t begin = 2, end; begin < line.size(); begin = end + 3) {
      end = line.find(" |", begin);
      cells.push_back(line.substr(begin, end - begin));
    }
    rows.emplace(cells[0], cells);
  }
  return rows;
}

TEST(CatalogTest, TheDocumentsTableSaysTheSame) {
  const auto rows = DocumentedKernels();
  EXPECT_THAT(rows, SizeIs(Catalog().size()));
  for (const CatalogEntry& entry : Catalog()) {
    const auto row = rows.find("`" + entry.name + "`");
    ASSERT_NE(row, rows.end()) << entry.name << " has no row in docs/kernels.md";
    std::ostringstream axes, output_class;
    for (const std::string& axis : entry.split_axes) axes << (axes.tellp() > 0 ? ", " : "") << axis;
    const char* const kClasses[] = {"", "exact", "bitwise", "tolerant"};
    output_class << kClasses[static_cast<int>(entry.output_class)];
    if (entry.tolerance > 0) output_class << ", " << entry.tolerance;
    const std::string source = SourceOf(entry.name);
    EXPECT_FALSE(source.empty()) << entry.name << ".h names no source";
    EXPECT_THAT(row->second,
                ElementsAre("`" + entry.name + "`", entry.summary, "`" + entry.signature + "`",
                            axes.str(), output_class.str(),
                            testing::HasSubstr(entry.host_stages ? "host stages" : ""), source));
  }
}

TEST(CatalogTest, HashesDiffer) {
  std::set<uint64_t> hashes;
  for (const CatalogEntry& entry : Catalog()) {
    EXPECT_NE(entry.content_hash, 0u);
    EXPECT_TRUE(hashes.insert(entry.content_hash).second) << entry.name;
  }
}

TEST(CatalogTest, CostsAreProductsOfNamesInTheSignature) {
  for (const CatalogEntry& entry : Catalog()) {
    EXPECT_GT(entry.cost_ns, 0) << entry.name;
    const auto signature = tandem::Signature::Parse(entry.signature);
    ASSERT_TRUE(signature.ok()) << entry.name << ": " << signature.status();
    std::string name;
    for (const char c : entry.cost_units + " ") {
      if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
        name += c;
        continue;
      }
      const bool known =
          name.empty() || signature->FindAxis(name) >= 0 || signature->FindScalar(name) >= 0;
      EXPECT_TRUE(known) << name;
      name.clear();
    }
  }
}

std::string Text(const ParsedSignature& s, Span span) {
  return std::string(s.text + span.begin, s.text + span.end);
}

// The two readers of one language agree on order, axes, ranks and reductions.
void ExpectSameReading(const std::string& text) {
  const auto model = tandem::Signature::Parse(text);
  ASSERT_TRUE(model.ok()) << text << ": " << model.status();
  const ParsedSignature sdk = ParseSignature(text.c_str());
  ASSERT_EQ(sdk.error, nullptr) << text << ": " << sdk.error;
  ASSERT_EQ(static_cast<size_t>(sdk.axes), model->axes().size()) << text;
  for (int i = 0; i < sdk.axes; ++i) EXPECT_EQ(Text(sdk, sdk.axis[i]), model->axes()[i]) << text;
  std::string task_axes;
  for (const int axis : model->task_axes())
    task_axes += (task_axes.empty() ? "" : " ") + model->axes()[axis];
  EXPECT_EQ(TaskAxesOf(sdk).text, task_axes) << text;
  ASSERT_EQ(static_cast<size_t>(sdk.fields), model->inputs().size() + model->outputs().size())
      << text;
  for (size_t i = 0; i < model->inputs().size(); ++i) {
    const auto& input = model->inputs()[i];
    const bool scalar = input.kind == tandem::Signature::InputKind::kScalar;
    EXPECT_EQ(sdk.field[i].scalar(), scalar) << text;
    EXPECT_EQ(Text(sdk, sdk.field[i].name),
              scalar ? model->scalars()[input.index].name : model->operands()[input.index].name);
    if (scalar) continue;
    EXPECT_EQ(static_cast<size_t>(sdk.field[i].rank), model->operands()[input.index].dims.size());
  }
  for (size_t i = 0; i < model->outputs().size(); ++i) {
    const Field& field = sdk.field[model->inputs().size() + i];
    EXPECT_EQ(Text(sdk, field.name), model->outputs()[i].name);
    EXPECT_EQ(static_cast<size_t>(field.rank), model->outputs()[i].dims.size());
    EXPECT_EQ(static_cast<int>(field.reduction), static_cast<int>(model->outputs()[i].reduction));
  }
}

TEST(SignatureTest, ModelAndSdkReadTheSame) {
  for (const CatalogEntry& entry : Catalog()) ExpectSameReading(entry.signature);
  for (const char* text :
       {"axis n, seed:u64 = 0 -> hits:u64 : sum",
        "axis n, axis m, x[n,k]:f32, w[m,k]:f32 -> y[n,m]:f32",
        "key[n]:u32 -> sorted[n]:u32 : merge",
        "a[2 * n + 1,m]:f64, b:bool = true -> c[n]:i8, d[m^2]:f16 : max",
        "x[n]:u8, lo:f32 = -1.5 in [-2, 2], k:i32 -> y[n]:bytes, z[k]:f64 : min"}) {
    ExpectSameReading(text);
  }
}

// Offsets by the rules of abi.h, worked out by hand.
TEST(SignatureTest, ArgumentsAreLaidOutNaturallyAligned) {
  const auto s =
      ParseSignature("b:bool, k:i16, x[n,k]:f32, f:f32, g:f64 -> y[n]:f32, s:f64 : sum, z[m]:i8");
  ASSERT_EQ(s.error, nullptr);
  const int64_t offsets[] = {0, 2, 8, 16, 24, 32, -1, 40};
  ASSERT_EQ(s.fields, 8);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(s.field[i].offset, offsets[i]) << i;
  EXPECT_EQ(s.axes, 2);
  EXPECT_EQ(s.axes_offset, 48);
  EXPECT_EQ(s.args_bytes, 72);
}

}  // namespace
}  // namespace tandem::kernels
