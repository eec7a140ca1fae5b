#include "train/loop/completion_log.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/folders.h"
#include "core/base/text.h"
#include "train/tasks/samples_completions.h"

namespace accel {
namespace {

/// The rows of a file up to `step`; "" without a file.
std::string rows_until(const std::string& path, int64_t step) {
  if (step == 0 || !std::filesystem::exists(path)) return "";
  std::ifstream lines(path);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_object() && row.value("step", step + 1) <= step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

void CompletionLog::after_step() {
  auto* task = dynamic_cast<SamplesCompletions*>(context_.job.task.get());
  if (!task) return;
  const std::vector<std::string> rows = task->take_completion_rows();
  if (rows.empty()) return;
  context_.check_folder();
  if (!file_) open();
  for (const std::string& row : rows) file_->append(row + "\n");
  file_->flush();
}

void CompletionLog::open() {
  const std::string folder = context_.run_dir + "/completions";
  make_folder_within(context_.run_dir, folder);
  const std::string path = text("{}/rank_{}.jsonl", folder, context_.job.rank);
  const std::string kept = rows_until(path, step_);
  std::filesystem::remove(path);
  file_.emplace(path);
  if (!kept.empty()) file_->append(kept);
}

}  // namespace accel
