#include "runner/cli/lazy_torch.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "runner/launch/rank_place.h"

/// Defined by the stand-ins alone.
extern "C" __attribute__((weak)) const char accel_torch_stand_in;

namespace accel {
namespace {

constexpr const char* kSearchPath = "LD_LIBRARY_PATH";
/// The search path as the user has it, for the time between the two starts.
constexpr const char* kUsersSearchPath = "ACCEL_RUN_LD_LIBRARY_PATH";

/// Where the folder of the stand-ins has libtorch: beside it, under the name without "-stand-in".
std::string torch_folder() {
  Dl_info info = {};
  if (dladdr(&accel_torch_stand_in, &info) == 0 || !info.dli_fname) return {};
  const std::filesystem::path folder =
      std::filesystem::weakly_canonical(info.dli_fname).parent_path();
  const std::string name = folder.filename().string();
  return (folder.parent_path() / name.substr(0, name.rfind("-stand-in"))).string();
}

/// What this program starts must not inherit how it found libtorch itself.
void restore_search_path() {
  const std::optional<std::string> users = environment_variable(kUsersSearchPath);
  if (!users) return;
  if (users->empty()) {
    unsetenv(kSearchPath);
  } else {
    setenv(kSearchPath, users->c_str(), 1);
  }
  unsetenv(kUsersSearchPath);
}

}  // namespace

bool torch_is_there() {
  if (&accel_torch_stand_in != nullptr) return false;
  restore_search_path();
  return true;
}

void require_torch(const std::vector<std::string>& argv) {
  const bool started_anew = environment_variable(kUsersSearchPath).has_value();
  if (torch_is_there()) return;
  const std::string folder = torch_folder();
  if (started_anew || !std::filesystem::exists(folder)) {
    throw Error(ExitCode::kOther, "libtorch is not in '" + folder + "'",
                "install accel-run anew, with its 'lib' folder");
  }
  const std::string users = environment_variable(kSearchPath).value_or("");
  setenv(kUsersSearchPath, users.c_str(), 1);
  // Errors of collectives are told by who calls them, and their record is the status board.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);
  setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  setenv("KINETO_LOG_LEVEL", "5", 0);  // that there is no GPU is no error of a profile
  setenv(kSearchPath, (users.empty() ? folder : folder + ":" + users).c_str(), 1);

  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // By its own name, not /proc/self/exe, which `ps` and `top` would show.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  execv(program.c_str(), words.data());
  throw Error(ExitCode::kOther, "cannot start '" + program + "': " + std::strerror(errno));
}

}  // namespace accel
