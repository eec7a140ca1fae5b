#include "runner/plugin/scaffold.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/diagnostic.h"
#include "runner/plugin/manifest.h"
#include "runner/plugin/reserved_vendor.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// In the examples' test.sh.
constexpr auto kTestProgram = ":-accel-run}";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// The example's names in a text or a file's name, replaced.
std::string renamed(std::string text, const std::string& from, const std::string& to) {
  replace_all(text, from, to);
  replace_all(text, class_name_of(from), class_name_of(to));
  replace_all(text, identifier_of(from), identifier_of(to));
  return text;
}

/// Within "${NAME:-...}" of a shell.
std::string shell_default(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\\"$`}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

void check_name(const std::string& name) {
  const std::string word = identifier_of(name);
  if (is_reserved_vendor(vendor_of(name))) {
    throw Error(ExitCode::kRecipe, "'" + name + "' is no name for a plugin: " + kReservedVendor,
                kReservedVendorHint);
  }
  if (is_vendor_name(name) && !std::isdigit(static_cast<unsigned char>(word[0]))) return;
  throw Error(ExitCode::kRecipe, "'" + name + "' is no name for a plugin",
              "write 'vendor/name', of lower-case letters, digits, '_', '-' and '.', with a letter "
              "behind the '/'");
}

}  // namespace

std::string identifier_of(const std::string& name) {
  std::string word = name.substr(name.find('/') + 1);
  std::replace_if(
      word.begin(), word.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return word;
}

std::string class_name_of(const std::string& name) {
  std::string out;
  bool start = true;
  for (const char c : identifier_of(name)) {
    if (c != '_') out += start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    start = c == '_';
  }
  return out;
}

std::vector<std::string> example_kinds(const std::string& examples) {
  std::vector<std::string> kinds;
  std::error_code error;
  for (fs::directory_iterator it(examples, error), end; !error && it != end; it.increment(error)) {
    if (fs::exists(it->path() / "plugin.toml")) kinds.push_back(it->path().filename().string());
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

std::vector<std::string> new_plugin(const std::string& examples, const NewPlugin& wanted) {
  const auto& [kind, name, folder, program] = wanted;
  const std::vector<std::string> kinds = example_kinds(examples);
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    std::string hint = did_you_mean(kind, kinds);
    for (const std::string& each : kinds) {
      if (!hint.starts_with("did")) hint += (hint.empty() ? "there are " : ", ") + each;
    }
    throw Error(ExitCode::kRecipe, "there is no example of a plugin for '" + kind + "'", hint);
  }
  check_name(name);
  if (fs::exists(folder)) {
    throw Error(ExitCode::kRecipe, "'" + folder + "' exists already",
                "give another folder; nothing is overwritten");
  }
  const fs::path example = fs::path(examples) / kind;
  const std::string old = read_plugin_source((example / "plugin.toml").string()).name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError("cannot make '" + folder + "': " + error.message());
  std::vector<std::string> files;
  for (const char* ending : {".cpp", ".toml", ".yaml", ".sh"}) {
    for (const auto& entry : fs::directory_iterator(example)) {
      const fs::path& from = entry.path();
      if (from.extension() != ending || from.filename().string().ends_with(".so.toml")) continue;
      const fs::path to = fs::path(folder) / renamed(from.filename().string(), old, name);
      std::ofstream out(to, std::ios::binary);
      std::string text = renamed(text_of(from), old, name);
      replace_all(text, kTestProgram, ":-" + shell_default(program) + "}");
      out << text;
      out.close();
      if (!out) throw IoError("cannot write '" + to.string() + "'");
      fs::permissions(to, fs::status(from).permissions() & ~(fs::perms::others_write), error);
      files.push_back(to.string());
    }
  }
  return files;
}

}  // namespace accel
