#include "client/cli/table.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

Table Jobs() {
  Table table("jobs", {{"ID"}, {"NAME"}, {"OWNER", Column::kWide}});
  table.Add({"7", "pi", "ada"}, {{"id", 7}, {"name", "pi"}});
  table.Add({"12", "größer", "bob"}, {{"id", 12}, {"name", "größer"}});
  return table;
}

TEST(TableTest, AlignsColumnsByCharactersAndHidesWideOnes) {
  EXPECT_EQ(Jobs().Render(Format::kTable),
            "ID  NAME\n"
            "7   pi\n"
            "12  größer\n");
  EXPECT_EQ(Jobs().Render(Format::kWide),
            "ID  NAME    OWNER\n"
            "7   pi      ada\n"
            "12  größer  bob\n");
}

TEST(TableTest, JsonBeginsWithItsVersion) {
  EXPECT_EQ(Jobs().Render(Format::kJson),
            R"({
  "api_version": "tandem.v1",
  "kind": "jobs",
  "items": [
    {
      "id": 7,
      "name": "pi"
    },
    {
      "id": 12,
      "name": "größer"
    }
  ]
}
)");
}

TEST(TableTest, JsonLinesAreWholeThings) {
  EXPECT_EQ(Jobs().Render(Format::kJsonl),
            R"({"api_version":"tandem.v1","kind":"job","id":7,"name":"pi"})"
            "\n"
            R"({"api_version":"tandem.v1","kind":"job","id":12,"name":"größer"})"
            "\n");
}

TEST(TableTest, NamesAreOneALine) { EXPECT_EQ(Jobs().Render(Format::kName), "7\n12\n"); }

TEST(TableTest, NothingIsStillATable) {
  const Table empty("jobs", {{"ID"}});
  EXPECT_EQ(empty.Render(Format::kTable), "ID\n");
  EXPECT_EQ(empty.Render(Format::kName), "");
  EXPECT_EQ(empty.Render(Format::kJsonl), "");
}

TEST(TableTest, WhatIsNoUtf8IsReplacedInJson) {
  Table table("jobs", {{"ID"}});
  table.Add({"7"}, {{"name", "\xff"}});
  EXPECT_EQ(table.Render(Format::kJsonl),
            "{\"api_version\":\"tandem.v1\",\"kind\":\"job\",\"name\":\"\xEF\xBF\xBD\"}\n");
}

TEST(RecordTest, ShowsOneThingInEveryFormat) {
  Record record("worker", "w1", {{"name", "w1"}});
  record.Line("worker", "w1");
  record.Line("address", "");
  record.Line("leaves done", "5");
  EXPECT_EQ(record.Render(Format::kTable),
            "worker       w1\n"
            "leaves done  5\n");
  EXPECT_EQ(record.Render(Format::kWide), record.Render(Format::kTable));
  EXPECT_EQ(record.Render(Format::kName), "w1\n");
  EXPECT_EQ(record.Render(Format::kJsonl),
            R"({"api_version":"tandem.v1","kind":"worker","name":"w1"})"
            "\n");
  EXPECT_EQ(
      record.Render(Format::kJson),
      "{\n  \"api_version\": \"tandem.v1\",\n  \"kind\": \"worker\",\n  \"name\": \"w1\"\n}\n");
}

TEST(FormatTest, NamesAreExact) {
  EXPECT_EQ(FormatFromName("jsonl"), Format::kJsonl);
  EXPECT_EQ(FormatFromName("JSON"), std::nullopt);
  EXPECT_EQ(FormatFromName(""), std::nullopt);
}

}  // namespace
}  // namespace tandem::cli
