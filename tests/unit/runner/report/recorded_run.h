// A run folder written as a run writes it, for those who read it.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/formats/temp_folder.h"
#include "track/record.h"

namespace accel {

/// One folder with `metrics.jsonl` and `recipe.yaml`.
class RecordedRun {
 public:
  explicit RecordedRun(const std::string& name = "digits") : dir_(folder_.path(name)) {
    std::filesystem::create_directories(dir_);
    write("recipe.yaml", "seed: 42  # default\nmodel:\n  type: mlp  # digits.yaml:1\n");
    record_.emplace(dir_ + "/metrics.jsonl", 0);
  }

  const std::string& dir() const { return dir_; }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(dir_ + "/" + name).parent_path());
    std::ofstream(dir_ + "/" + name, std::ios::binary) << text;
  }

  /// Steps up to `last`, with a log line, and what was used, every ten.
  void train(int64_t last) {
    while (step_ < last) {
      ++step_;
      const double loss = 1.0 / static_cast<double>(step_);
      record_->step({.step = step_,
                     .epoch = step_ / 50,
                     .samples = step_ * 8,
                     .loss = loss,
                     .grad_norm = 2 * loss,
                     .lr = 0.01});
      if (step_ % 10 != 0) continue;
      record_->log(step_, std::vector<Measurement>{{"train/loss", loss},
                                                   {"train/samples_per_second", 800},
                                                   {"train/epoch", 0.02 * double(step_)}});
      record_->use(step_, std::vector<Measurement>{
                              {"time/data", 0.25}, {"time/forward", 0.75}, {"memory_mib", 180.5}});
    }
  }
  /// To be written to; what is read has to be flushed.
  RunRecord& record() { return *record_; }
  void flush() { record_->flush(); }

 private:
  TempFolder folder_;
  std::string dir_;
  std::optional<RunRecord> record_;
  int64_t step_ = 0;
};

}  // namespace accel
