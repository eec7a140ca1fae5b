#include "train/control/control_journal.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/append_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/json_text.h"
#include "core/base/regular_file.h"

namespace accel {
namespace {

std::string path_of(const std::string& run_dir) {
  return run_dir + "/control.jsonl";
}

std::string line_of(const JournalEntry& entry) {
  std::string line = "{\"step\":" + std::to_string(entry.step);
  line.append(",\"order\":").append(json_text(entry.command));
  line.append(",\"was\":").append(json_text(entry.was)).append("}\n");
  return line;
}

}  // namespace

std::string JournalEntry::key() const {
  const size_t equals = command.find('=');
  return equals == std::string::npos ? "" : command.substr(0, equals);
}

std::vector<JournalEntry> read_journal(const std::string& run_dir) {
  std::vector<JournalEntry> journal;
  std::ifstream file = open_regular_file(path_of(run_dir));
  for (std::string line; std::getline(file, line);) {
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("step") || !parsed["step"].is_number_integer() ||
        !parsed.contains("order") || !parsed["order"].is_string() || !parsed.contains("was") ||
        !parsed["was"].is_string()) {
      continue;
    }
    journal.push_back({parsed["step"], parsed["order"], parsed["was"]});
  }
  if (file.bad()) throw IoError("cannot read '" + path_of(run_dir) + "'");
  std::stable_sort(journal.begin(), journal.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return journal;
}

void add_to_journal(const std::string& run_dir, const JournalEntry& entry) {
  AppendFile file(path_of(run_dir));
  file.append(line_of(entry));
  file.sync();
}

void clear_journal(const std::string& run_dir) {
  std::error_code error;
  std::filesystem::remove(path_of(run_dir), error);
  if (error) throw IoError("cannot remove '" + path_of(run_dir) + "': " + error.message());
}

void drop_from_journal(const std::string& run_dir, const std::vector<std::string>& keys) {
  const std::vector<JournalEntry> journal = read_journal(run_dir);
  const auto gone = [&](const JournalEntry& entry) {
    return std::find(keys.begin(), keys.end(), entry.key()) != keys.end();
  };
  if (std::none_of(journal.begin(), journal.end(), gone)) return;
  write_file_atomically(path_of(run_dir), [&](const ByteSink& write) {
    for (const JournalEntry& entry : journal) {
      if (!gone(entry)) write(as_bytes(line_of(entry)));
    }
  });
}

}  // namespace accel
