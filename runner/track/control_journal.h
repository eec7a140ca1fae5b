// What was asked of a run and changed what it computes, so that a resume does it again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// An order that was obeyed after `step` steps: "eval", or "optimizer.lr=0.0001", before which the
/// option was `was`.
struct JournalEntry {
  int64_t step = 0;
  std::string order;
  std::string was;

  bool operator==(const JournalEntry&) const = default;
  /// The option it sets; "" for one that sets none.
  std::string key() const;
};

/// `run_dir`/control.jsonl, ordered by step; empty when there is none. A line that a crash tore is
/// left out. Throws IoError.
std::vector<JournalEntry> read_journal(const std::string& run_dir);

/// Adds a line, and waits for the disk. Throws IoError.
void add_to_journal(const std::string& run_dir, const JournalEntry& entry);

/// A run that starts anew has none. Throws IoError.
void clear_journal(const std::string& run_dir);

/// Takes the entries of these options out: they have been given other values since. Throws IoError.
void drop_from_journal(const std::string& run_dir, const std::vector<std::string>& keys);

}  // namespace accel
