// The job that the loop is measured with, and the bare loop beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "train/job/job.h"

namespace accel {

struct BenchSetting {
  std::string model;
  int64_t batch = 64;
  int64_t steps = 100;
  int64_t workers = 0;            ///< of the loader
  std::string log = "100 steps";  ///< period of log lines, as `log.every`
  std::string more = {};          ///< lines of the recipe besides
};

/// A folder of images and labels below the system's for temporary files; removed with it.
class BenchFolder {
 public:
  BenchFolder();
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The job of a recipe's text; paths in it are relative to the working directory. Throws
/// RecipeError, as accel-run would.
std::unique_ptr<Job> make_job_of(const std::string& text);

/// Trains on the data of `folder` and saves nothing.
std::unique_ptr<Job> make_bench_job(const BenchSetting& setting, const BenchFolder& folder);

/// The job's first batches, for a loop that has them in memory.
std::vector<Batch> first_batches(Job& job);

/// Forward, backward and update of the job's model, over and over the same batches.
void bare_steps(Job& job, const std::vector<Batch>& batches, int64_t steps);

/// The same with batches that it gathers from all the data in memory, in a random order: bytes as
/// the files have them, which become float32 in [0, 1].
void bare_steps_over_data(Job& job, int64_t batch, int64_t steps);

}  // namespace accel
