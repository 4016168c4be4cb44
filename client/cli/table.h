// Rows or one thing, for people and for programs: table, wide, json, jsonl, name.
//
//   Table table("jobs", {{"ID"}, {"NAME"}, {"OWNER", Column::kWide}});
//   table.Add({"7", "pi", "ada"}, {{"id", 7}, …});
//   std::cout << table.Render(context->format());
//
//   Record record("job", "7", {{"id", 7}, …});
//   record.Line("state", "RUNNING");
//   std::cout << record.Render(context->format());
//
// JSON begins with "api_version" and "kind": a list is {…, "kind": "jobs", "items": […]}, one thing
// {…, "kind": "job", its fields}; jsonl is one such thing a line. Fields are added, never renamed.
// Thread-safety: one thread at a time.
#ifndef TANDEM_CLIENT_CLI_TABLE_H_
#define TANDEM_CLIENT_CLI_TABLE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::cli {

inline constexpr char kApiVersion[] = "tandem.v1";

enum class Format { kTable, kWide, kJson, kJsonl, kName };
std::optional<Format> FormatFromName(std::string_view name);

struct Column {
  enum Shown { kAlways, kWide };
  std::string title;
  Shown shown = kAlways;
};

class Table {
 public:
  // `kind`: a plural that is its singular and an s.
  Table(std::string kind, std::vector<Column> columns)
      : kind_(std::move(kind)), columns_(std::move(columns)) {}

  // The first cell is the row's name.
  void Add(std::vector<std::string> cells, nlohmann::ordered_json item);
  std::string Render(Format format) const;
  const nlohmann::ordered_json& items() const { return items_; }

 private:
  std::string RenderText(bool wide) const;

  std::string kind_;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  nlohmann::ordered_json items_ = nlohmann::ordered_json::array();
};

// One thing: `title  value` lines, or JSON.
class Record {
 public:
  Record(std::string kind, std::string name, nlohmann::ordered_json fields)
      : kind_(std::move(kind)), name_(std::move(name)), fields_(std::move(fields)) {}

  // Left out where the value is empty.
  void Line(std::string_view title, std::string_view value);
  std::string Render(Format format) const;
  const nlohmann::ordered_json& fields() const { return fields_; }

 private:
  std::string kind_, name_;
  nlohmann::ordered_json fields_;
  std::vector<std::pair<std::string, std::string>> lines_;
};

// {"api_version": …, "kind": KIND, …} and a newline; on one line if `compact`.
std::string RenderObject(std::string_view kind, const nlohmann::ordered_json& fields,
                         bool compact = false);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_TABLE_H_
