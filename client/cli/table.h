// Rows for people and for programs: table, wide, json, jsonl, name.
//
//   Table table({{"id"}, {"name"}, {"owner", Column::kWide}});
//   table.Add({"7", "pi", "ada"}, {{"id", 7}, …});
//   std::cout << table.Render(Format::kTable);
//
// JSON is {"version":1,"kind":KIND,"items":[…]} (jsonl: an item a line); its fields are added,
// never renamed. Thread-safety: one thread at a time.
#ifndef TANDEM_CLIENT_CLI_TABLE_H_
#define TANDEM_CLIENT_CLI_TABLE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::cli {

enum class Format { kTable, kWide, kJson, kJsonl, kName };
std::optional<Format> FormatFromName(std::string_view name);

struct Column {
  enum Shown { kAlways, kWide };
  std::string title;
  Shown shown = kAlways;
};

class Table {
 public:
  Table(std::string kind, std::vector<Column> columns)
      : kind_(std::move(kind)), columns_(std::move(columns)) {}

  // The first cell is the row's name. REQUIRES: a cell a column.
  void Add(std::vector<std::string> cells, nlohmann::ordered_json item);
  std::string Render(Format format) const;

 private:
  std::string RenderText(bool wide) const;

  std::string kind_;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  nlohmann::ordered_json items_ = nlohmann::ordered_json::array();
};

// JSON of one thing: {"version":1,"kind":KIND, …}.
std::string RenderObject(std::string_view kind, nlohmann::ordered_json fields);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_TABLE_H_
