#include "runner/plugin/shared_object.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>

#include "core/error.h"
#include "core/plugin_abi.h"

namespace accel {
namespace {

/// What the child has to say, and where to; the loader takes no argument to its terminate handler.
int refusals = -1;

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : symbol;
}

/// The loader's error in the house form.
Error loader_error(const std::string& path, const std::string& text) {
  constexpr std::string_view kUndefined = "undefined symbol: ";
  const size_t at = text.find(kUndefined);
  if (at == text.npos) {
    return Error(ExitCode::kRecipe, "cannot load plugin '" + path + "': " + text);
  }
  const size_t begin = at + kUndefined.size();
  const std::string symbol = text.substr(begin, text.find_first_of(" \t(", begin) - begin);
  return Error(ExitCode::kRecipe,
               "plugin '" + path + "' needs '" + demangled(symbol) +
                   "', which neither accel-run nor libtorch has",
               "define it in one of the plugin's sources");
}

void load(const std::string& path, Registry& registry) {
  // A bare name would be looked for elsewhere.
  const std::string whole = std::filesystem::absolute(path).string();
  void* plugin = dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin) throw loader_error(path, dlerror());
  using Enter = void (*)(Registry&);
  const auto enter = reinterpret_cast<Enter>(dlsym(plugin, kPluginEntry));
  if (!enter) {
    throw Error(ExitCode::kRecipe,
                "plugin '" + path + "' does not export '" + std::string(kPluginEntry) + "'",
                "build it with 'accel-run plugin build' or accel_add_plugin()");
  }
  try {
    enter(registry);
  } catch (const std::logic_error& error) {  // of a name that its manifest does not tell of
    throw Error(ExitCode::kRecipe, "plugin '" + path + "' cannot be entered: " + error.what(),
                "describe it anew: accel-run plugin describe " + path);
  }
}

std::string threw(const std::string& what) {
  return "threw while it was loaded: " + what;
}

[[noreturn]] void end_child(const std::string& refusal) {
  (void)!write(refusals, refusal.data(), refusal.size());
  _exit(refusal.empty() ? 0 : 1);
}

/// What an initialiser throws goes no further than the loader, which ends the process.
[[noreturn]] void tell_what_was_thrown() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    end_child(threw(error.what()));
  } catch (...) {
    end_child(threw("an exception of a type of its own"));
  }
}

[[noreturn]] void try_in_child(const std::string& path) {
  std::set_terminate(&tell_what_was_thrown);
  try {
    Registry scratch;
    load(path, scratch);
  } catch (const Error&) {
    end_child({});  // the parent finds the same
  } catch (const std::exception& error) {
    end_child(threw(error.what()));
  }
  end_child({});
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count > 0 && text.size() < 4096) text.append(buffer, static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
  }
}

/// What is wrong with the plugin's initialisers; "" for nothing.
std::string refusal_of(const std::string& path) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    refusals = ends[1];
    try_in_child(path);
  }
  close(ends[1]);
  std::string refusal = child > 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (child < 0) return {};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!refusal.empty()) return refusal;
  if (WIFSIGNALED(status)) {
    return "ended the process by signal " + std::to_string(WTERMSIG(status)) +
           " while it was loaded";
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ""
                                                       : "ended the process while it was loaded";
}

}  // namespace

void enter_plugin(const std::string& path, Registry& registry) {
  const std::string refusal = refusal_of(path);
  if (!refusal.empty()) {
    throw Error(ExitCode::kRecipe, "plugin '" + path + "' " + refusal,
                "let its components do in their constructors what can fail");
  }
  load(path, registry);
}

}  // namespace accel
