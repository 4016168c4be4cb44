// tandem-executor-cuda: the program of Tandem that links CUDA. The worker and `tandem doctor` start
// it to learn what GPUs there are, and whether they work; whatever CUDA does in it harms nobody
// else.
//
// Exit codes: 0 it answered (also that there is no device) · 2 usage.
#include <cstdio>
#include <string>
#include <vector>

#include "worker/device/cuda/probe.h"

namespace {

constexpr char kHelp[] =
    "tandem-executor-cuda says, as a line of JSON, what it finds of NVIDIA GPUs.\n\n"
    "  --probe         the devices that CUDA sees through CUDA_VISIBLE_DEVICES, and all versions\n"
    "  --check=UUID    runs a grid on that device and compares its results with the CPU's\n"
    "  --nvml=PATH     NVIDIA's management library (default: libnvidia-ml.so.1)\n\n"
    "`tandem doctor` says the same in words.\n";

}  // namespace

int main(int argc, char** argv) {
  constexpr int kUsage = 2;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (tandem::worker::AnswerProbe(arguments)) return 0;
  const bool help = arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h");
  std::fputs(kHelp, help ? stdout : stderr);
  return help ? 0 : kUsage;
}
