#include "client/cli/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "client/cli/settings_file.h"
#include "common/base/error.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() {
    std::string name = (fs::temp_directory_path() / "tandem-settings-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    paths_ = {(folder_ / "system.toml").string(), (folder_ / "home/user.toml").string()};
  }
  ~SettingsTest() override { fs::remove_all(folder_); }

  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  absl::StatusOr<Settings> Load() {
    return Settings::Load(paths_, [this](const char* name) -> const char* {
      const auto found = environment_.find(name);
      return found == environment_.end() ? nullptr : found->second.c_str();
    });
  }

  fs::path folder_;
  SettingPaths paths_;
  std::map<std::string, std::string> environment_;
};

TEST_F(SettingsTest, EachLayerGoesBeforeTheNext) {
  const auto address = [this] {
    const auto settings = Load();
    EXPECT_TRUE(settings.ok()) << settings.status();
    const Settings::Value& value = settings->Get("address");
    return value.text + " " + std::string(OriginName(value.origin)) + " " + value.where;
  };
  EXPECT_EQ(address(), "127.0.0.1:7460 default ");
  Write(paths_.system, "address = \"s:1\"\n");
  EXPECT_EQ(address(), "s:1 system file " + paths_.system);
  Write(paths_.user, "address = \"u:2\"\n");
  EXPECT_EQ(address(), "u:2 user file " + paths_.user);
  environment_["TANDEM_ADDRESS"] = "e:3";
  EXPECT_EQ(address(), "e:3 environment TANDEM_ADDRESS");
  auto settings = Load();
  ASSERT_TRUE(settings->SetFlag("address", "--address", "f:4").ok());
  EXPECT_EQ(settings->Get("address").text, "f:4");
  EXPECT_EQ(settings->Get("address").origin, Origin::kFlag);
  EXPECT_EQ(settings->Get("output").origin, Origin::kDefault);
}

TEST_F(SettingsTest, ADefaultPathOutOfReachHoldsNoFileANamedOneIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may search every directory";
  Write(paths_.user, "address = \"u:2\"\n");
  const fs::path home = folder_ / "home";
  fs::permissions(home, fs::perms::none);
  const auto found = Load();
  paths_.user_named = true;
  const absl::Status named = Load().status();
  fs::permissions(home, fs::perms::owner_all);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->Get("address").origin, Origin::kDefault);
  EXPECT_EQ(ReasonOf(named), "PATH_UNREADABLE");
}

TEST_F(SettingsTest, AnEmptyVariableSaysNothing) {
  environment_["TANDEM_OUTPUT"] = "";
  EXPECT_EQ(Load()->Get("output").text, "table");
}

TEST_F(SettingsTest, AnUnknownKeyIsRefusedWithTheNearest) {
  Write(paths_.user, "# mine\n\nadress = \"u:2\"\n");
  const absl::Status refused = Load().status();
  EXPECT_EQ(ReasonOf(refused), "UNKNOWN_SETTING");
  EXPECT_NE(refused.message().find("user.toml line 3: no setting is named \"adress\"; did you mean "
                                   "address?"),
            absl::string_view::npos)
      << refused;
}

TEST_F(SettingsTest, AValueThatDoesNotFitNamesItsPlace) {
  Write(paths_.system, "patience = \"soon\"\n");
  EXPECT_EQ(ReasonOf(Load().status()), "BAD_DURATION");
  EXPECT_NE(Load().status().message().find("system.toml line 1"), absl::string_view::npos);
  Write(paths_.system, "");
  environment_["TANDEM_OUTPUT"] = "jsn";
  EXPECT_NE(Load().status().message().find("TANDEM_OUTPUT: "), absl::string_view::npos);
  EXPECT_NE(Load().status().message().find("did you mean json?"), absl::string_view::npos);
  EXPECT_EQ(FieldOf(Load().status()), "output");
}

TEST_F(SettingsTest, WhatIsNoTomlNamesItsLine) {
  for (const char* text :
       {"output = \"json\"\naddress 7\n", "output = \"json\"\naddress = \"a\n", "\naddress = 7\n",
        "output = \"json\"\n[address]\nx = \"y\"\n", "address = \"a:1\"\naddress = \"a:2\"\n"}) {
    Write(paths_.user, text);
    EXPECT_EQ(ReasonOf(Load().status()), "BAD_SETTINGS") << text;
    EXPECT_NE(Load().status().message().find("user.toml line 2"), absl::string_view::npos)
        << text << Load().status();
  }
}

TEST_F(SettingsTest, AFolderIsNoFile) {
  fs::create_directories(paths_.user);
  EXPECT_EQ(ReasonOf(Load().status()), "PATH_UNREADABLE");
}

TEST_F(SettingsTest, EditingKeepsCommentsAndOrder) {
  Write(paths_.user, "# mine\noutput = \"wide\"  # always\naddress = \"u:2\"");
  ASSERT_TRUE(EditSettingsFile(paths_.user, "output", "json").ok());
  EXPECT_EQ(Read(paths_.user), "# mine\noutput = \"json\"\naddress = \"u:2\"\n");
  ASSERT_TRUE(EditSettingsFile(paths_.user, "patience", "5s").ok());
  EXPECT_EQ(Read(paths_.user), "# mine\noutput = \"json\"\naddress = \"u:2\"\npatience = \"5s\"\n");
  ASSERT_TRUE(EditSettingsFile(paths_.user, "address", std::nullopt).ok());
  EXPECT_EQ(Read(paths_.user), "# mine\noutput = \"json\"\npatience = \"5s\"\n");
  EXPECT_EQ(Load()->GetDuration("patience"), absl::Seconds(5));
}

TEST_F(SettingsTest, EditingMakesTheFileAndItsFolder) {
  ASSERT_TRUE(EditSettingsFile(paths_.user, "output", "name").ok());
  EXPECT_EQ(Load()->Get("output").text, "name");
  EXPECT_FALSE(fs::exists(paths_.user + ".part"));
}

TEST_F(SettingsTest, ABrokenFileIsNotEdited) {
  Write(paths_.user, "oops\n");
  EXPECT_EQ(ReasonOf(EditSettingsFile(paths_.user, "output", "json")), "BAD_SETTINGS");
  EXPECT_EQ(Read(paths_.user), "oops\n");
}

TEST_F(SettingsTest, EveryDefaultFits) {
  for (const SettingInfo& setting : KnownSettings()) {
    EXPECT_TRUE(CheckSetting(setting, "default", setting.fallback).ok()) << setting.key;
  }
}

}  // namespace
}  // namespace tandem::cli
