#include "client/cli/table.h"

#include <algorithm>

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTitleWidthMin = 10;

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
      return RenderObject(kind_, {{"items", items_}});
    case Format::kJsonl: {
      std::string out;
      const std::string one = kind_.substr(0, kind_.size() - 1);
      for (const Json& item : items_) out += RenderObject(one, item, true);
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

void Record::Line(std::string_view title, std::string_view value) {
  if (!value.empty()) lines_.emplace_back(title, value);
}

std::string Record::Render(Format format) const {
  switch (format) {
    case Format::kTable:
    case Format::kWide: {
      size_t width = kTitleWidthMin;
      for (const auto& [title, value] : lines_) width = std::max(width, Width(title));
      std::string out;
      for (const auto& [title, value] : lines_) {
        out += title;
        out.append(width - Width(title) + 2, ' ');
        out += value + '\n';
      }
      return out;
    }
    case Format::kJson:
    case Format::kJsonl:
      return RenderObject(kind_, fields_, format == Format::kJsonl);
    case Format::kName:
      return name_ + '\n';
  }
  return "";
}

std::string RenderObject(std::string_view kind, const Json& fields, bool compact) {
  Json object = {{"api_version", kApiVersion}, {"kind", kind}};
  object.update(fields);
  return Dump(object, compact ? -1 : 2) + '\n';
}

}  // namespace tandem::cli
