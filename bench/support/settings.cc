#include "bench/support/settings.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

namespace tandem::bench {

Settings ParseSettings(int argc, char** argv, const std::string& what) {
  Settings settings;
  settings.bin = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  settings.data = "build/data";
  settings.out = "build/bench";
  CLI::App app(what);
  app.add_option("--bin", settings.bin, "Where tandem-master and tandem-worker are")
      ->envname("TANDEM_BIN")
      ->capture_default_str();
  app.add_option("--data", settings.data, "Where examples/fetch_data.sh put its files")
      ->envname("TANDEM_DATA")
      ->capture_default_str();
  app.add_option("--out", settings.out, "Where JSON and scratch files go")
      ->envname("TANDEM_OUT")
      ->capture_default_str();
  app.add_flag("--quick", settings.quick, "Smaller and fewer runs: figures are rough");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  settings.out = std::filesystem::absolute(settings.out).string();
  std::filesystem::create_directories(settings.out);
  return settings;
}

}  // namespace tandem::bench
