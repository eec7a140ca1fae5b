#include "parallel/rendezvous/launcher_variables.h"

#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

void refuse_variables(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

std::string plain_address(const std::string& address) {
  const bool brackets = address.size() > 2 && address.front() == '[' && address.back() == ']';
  return brackets ? address.substr(1, address.size() - 2) : address;
}

LauncherVariables::LauncherVariables(const EnvironmentLookup& lookup, std::string launcher)
    : lookup_(lookup), launcher_(std::move(launcher)) {}

std::optional<std::string> LauncherVariables::value(const std::string& name) const {
  auto found = lookup_(name);
  return found && !found->empty() ? found : std::nullopt;
}

std::optional<std::string> LauncherVariables::first(
    std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (auto found = value(name)) return found;
  }
  return std::nullopt;
}

std::string LauncherVariables::need(const std::string& name, const std::string& because) const {
  if (auto found = value(name)) return *found;
  refuse_variables(text("environment variable '{}' is set, but not '{}'", because, name),
                   text("set both, as {} does, or unset '{}'", launcher_, because));
}

int64_t LauncherVariables::number(const std::string& name, const std::string& because,
                                  int64_t least, int64_t most) const {
  const std::string digits = need(name, because);
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc() && stop == end && number >= least && number <= most) return number;
  refuse_variables(text("environment variable '{}' is '{}', not a whole number from {} to {}", name,
                        digits, least, most),
                   text("it must have the value that {} sets", launcher_));
}

int64_t port_of_job(const std::string& job) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return 20000 + static_cast<int64_t>(hash % 10000);
}

}  // namespace accel
