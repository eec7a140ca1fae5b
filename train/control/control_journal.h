// Journal of the commands that changed a run's computation, for replay after a resume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// A command applied after `step` steps: "eval", or "optimizer.lr=0.0001" with the old value `was`.
struct JournalEntry {
  int64_t step = 0;
  std::string command;
  std::string was;

  bool operator==(const JournalEntry&) const = default;
  /// The option it sets; "" for "eval".
  std::string key() const;
};

/// `run_dir`/control.jsonl, ordered by step; empty without the file. A line torn by a crash is
/// skipped. Throws IoError.
std::vector<JournalEntry> read_journal(const std::string& run_dir);

/// Appends a line and syncs it. Throws IoError.
void add_to_journal(const std::string& run_dir, const JournalEntry& entry);

/// Deletes the journal, for a new run. Throws IoError.
void clear_journal(const std::string& run_dir);

/// Removes the entries of these options, which have been overridden since. Throws IoError.
void drop_from_journal(const std::string& run_dir, const std::vector<std::string>& keys);

}  // namespace accel
