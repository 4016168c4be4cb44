#include "client/cli/table.h"

#include <algorithm>

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// What is not UTF-8 becomes U+FFFD: output is always valid JSON.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Columns of a text in UTF-8, near enough: a character each.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::optional<Format> FormatFromName(std::string_view name) {
  if (name == "table") return Format::kTable;
  if (name == "wide") return Format::kWide;
  if (name == "json") return Format::kJson;
  if (name == "jsonl") return Format::kJsonl;
  if (name == "name") return Format::kName;
  return std::nullopt;
}

void Table::Add(std::vector<std::string> cells, Json item) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
  items_.push_back(std::move(item));
}

std::string Table::RenderText(bool wide) const {
  std::vector<size_t> width(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    width[c] = Width(columns_[c].title);
    for (const auto& row : rows_) width[c] = std::max(width[c], Width(row[c]));
  }
  std::string out;
  const auto line = [&](const auto& cell) {
    std::string text;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!wide && columns_[c].shown == Column::kWide) continue;
      const std::string& value = cell(c);
      text += value;
      text.append(width[c] - Width(value) + 2, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) line([&](size_t c) -> const std::string& { return row[c]; });
  return out;
}

std::string Table::Render(Format format) const {
  switch (format) {
    case Format::kTable:
    case Format::kWide:
      return RenderText(format == Format::kWide);
    case Format::kJson:
      return Dump(Json{{"version", 1}, {"kind", kind_}, {"items", items_}}, 2) + '\n';
    case Format::kJsonl: {
      std::string out;
      for (const Json& item : items_) out += Dump(item, -1) + '\n';
      return out;
    }
    case Format::kName: {
      std::string out;
      for (const auto& row : rows_) out += row[0] + '\n';
      return out;
    }
  }
  return "";
}

std::string RenderObject(std::string_view kind, Json fields) {
  Json object = {{"version", 1}, {"kind", kind}};
  object.update(fields);
  return Dump(object, 2) + '\n';
}

}  // namespace tandem::cli
