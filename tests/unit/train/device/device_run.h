// Runs of jobs on the CPU and on the device that stands in for a GPU, and what they leave.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/between_steps.h"
#include "kernels/cpu_operators.h"
#include "tests/host_device/host_device.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/torch_setup.h"
#include "train/loop/run.h"

namespace accel::device_run {

inline std::unique_ptr<Job> job_on(at::Device device, const std::string& text) {
  World world;
  world.device = device;
  auto job = make_job(text, world);
  use_kernels(Kernels::kReference);  // the fused ones are the CPU's alone
  return job;
}

/// What is left of a run.
struct Ran {
  std::string error;
  std::vector<std::string> lines;   ///< of the record, without clocks and devices
  std::vector<at::Tensor> weights;  ///< on the CPU
};

inline std::vector<std::string> lines_of_record(const std::string& run_dir) {
  std::vector<std::string> lines;
  std::string line;
  for (std::ifstream in(run_dir + "/metrics.jsonl"); std::getline(in, line);) {
    const size_t event = line.find(",\"text\":");
    if (line.find("\"event\":") != line.npos) line.resize(event);
    for (const char* const speed :
         {"\"train/samples_per_second\":", "\"train/tokens_per_second\":"}) {
      const size_t at = line.find(speed);
      if (at != line.npos) line.erase(at, line.find_first_of(",}", at) - at);
    }
    const auto has = [&](const char* key) { return line.find(key) != line.npos; };
    if (!has("\"use\":") && !has("\"about\":") && !has("\"plan\":")) lines.push_back(line);
  }
  return lines;
}

inline Ran run(Job& job, const std::string& run_dir,
               std::optional<int64_t> stop_after = std::nullopt) {
  RunRequest request;
  request.run_dir = run_dir;
  request.stop_after = stop_after;
  Ran ran;
  try {
    run_job(job, request);
  } catch (const std::exception& error) {
    ran.error = error.what();
  }
  ran.lines = lines_of_record(run_dir);
  for (const Parameter& item : job.parameters) {
    ran.weights.push_back(item.local.detach().cpu().clone());
  }
  return ran;
}

inline void expect_same(const Ran& found, const Ran& wanted) {
  EXPECT_EQ(found.error, wanted.error);
  EXPECT_EQ(found.lines, wanted.lines);
  ASSERT_EQ(found.weights.size(), wanted.weights.size());
  for (size_t i = 0; i < wanted.weights.size(); ++i) {
    EXPECT_TRUE(found.weights[i].equal(wanted.weights[i])) << i;
  }
}

/// As expect_same(); with a tolerance of losses and norms, by their numbers alone.
inline void expect_near(const Ran& found, const Ran& wanted, double tolerance) {
  if (tolerance == 0) return expect_same(found, wanted);
  EXPECT_EQ(found.error, wanted.error);
  ASSERT_EQ(found.lines.size(), wanted.lines.size());
  const auto number = [](const std::string& line, const std::string& key) {
    const size_t at = line.find("\"" + key + "\":");
    return at == line.npos ? 0 : std::stod(line.substr(at + key.size() + 3));
  };
  for (size_t i = 0; i < wanted.lines.size(); ++i) {
    for (const char* const key : {"step", "loss", "grad_norm", "eval/loss"}) {
      EXPECT_NEAR(number(found.lines[i], key), number(wanted.lines[i], key), tolerance) << key << i;
    }
  }
}

constexpr auto kNothingIsDue =
    "log: {every: never}\neval: {every: never}\ncheckpoint: {every: never, at_end: false}\n";

/// How often the host waits for the device in a step of `job`, without log and save: the mean of
/// steps 11 to 30 of 40.
inline double waits_of_a_step(Job& job, const std::string& run_dir) {
  int64_t waits = 0;
  between_steps(
      job, 10, 30, [&] { waits -= host_device_waits(); }, [&] { waits += host_device_waits(); });
  EXPECT_EQ(run(job, run_dir).error, "");
  return static_cast<double>(waits) / 20;
}

}  // namespace accel::device_run
