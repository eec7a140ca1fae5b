#include "core/base/hardware_info.h"

#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/text.h"

namespace accel {
namespace {

/// The value of "name   : value" in a file of /proc.
std::string proc_value(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == line.npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == line.npos ? "" : line.substr(begin);
  }
  return "unknown";
}

std::string gibibytes(const std::string& kilobytes) {
  const double kib = std::strtod(kilobytes.c_str(), nullptr);
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", kib / (1 << 20));
  return text;
}

std::string cores_text() {
  cpu_set_t set;
  const long all = sysconf(_SC_NPROCESSORS_CONF);
  const long usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : all;
  return text("{} usable of {}", usable, all);
}

std::string compiler_text() {
#ifdef __clang__
  return std::string("clang ") + __clang_version__;
#else
  return std::string("gcc ") + __VERSION__;
#endif
}

constexpr std::string_view kRunPrefixes[] = {
    "ACCELERATE_", "ACCEL_",   "OMP_",   "MKL_",    "KMP_",    "GOMP_",    "OMPI_COMM_WORLD_",
    "PMI_",        "MV2_",     "MPI_",   "SLURM_",  "MASTER_", "CUDA_",    "GLOO_",
    "TORCH_",      "PYTORCH_", "WANDB_", "MLFLOW_", "COMET_",  "TRACKIO_", "DVC",
    "HF_",         "LD_"};
constexpr std::string_view kRunNames[] = {
    "RANK",           "WORLD_SIZE", "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "TMPDIR",
    "XDG_CACHE_HOME", "http_proxy", "https_proxy", "no_proxy"};
constexpr std::string_view kSecretWords[] = {"TOKEN",  "KEY",        "SECRET", "PASSWORD",
                                             "PASSWD", "CREDENTIAL", "proxy"};

bool matters(std::string_view name) {
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return std::any_of(std::begin(kRunPrefixes), std::end(kRunPrefixes), begins) ||
         std::find(std::begin(kRunNames), std::end(kRunNames), name) != std::end(kRunNames);
}

/// By its name, or by a value that is a URL with credentials.
bool may_be_secret(std::string_view name, std::string_view value) {
  const auto has = [&](std::string_view word) { return name.find(word) != name.npos; };
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords), has) ||
         (value.find("://") != value.npos && value.find('@') != value.npos);
}

}  // namespace

int64_t gpus_here(const std::string& devices) {
  constexpr std::string_view kPrefix = "nvidia";
  int64_t count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(devices, none)) {
    const std::string name = entry.path().filename().string();
    if (name.size() == kPrefix.size() || !name.starts_with(kPrefix)) continue;
    const std::string_view number = std::string_view(name).substr(kPrefix.size());
    if (number.find_first_not_of("0123456789") == number.npos) ++count;
  }
  return count;
}

NamedValues hardware_info() {
  utsname kernel = {};
  uname(&kernel);
  const std::string memory = gibibytes(proc_value("/proc/meminfo", "MemTotal"));
  const std::string free = gibibytes(proc_value("/proc/meminfo", "MemAvailable"));
  const int64_t gpus = gpus_here();
  return {{"compiler", compiler_text()},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine},
          {"glibc", gnu_get_libc_version()},
          {"cpu", proc_value("/proc/cpuinfo", "model name")},
          {"cores", cores_text()},
          {"memory", memory + ", " + free + " available"},
          {"gpu", gpus == 0 ? "none" : std::to_string(gpus)}};
}

NamedValues run_variables(const char* const* environment) {
  NamedValues found;
  for (; environment && *environment; ++environment) {
    const std::string_view text = *environment;
    const size_t equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals);
    if (!matters(name)) continue;
    const std::string_view value = text.substr(std::min(equals + 1, text.size()));
    found.emplace_back(name, may_be_secret(name, value) ? "(set)" : value);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace accel
