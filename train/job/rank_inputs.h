// The input files of a rank in short, to detect machines whose files differ.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/api/dataset.h"
#include "train/job/job.h"

namespace accel {

struct SampleDigest {
  int64_t index = 0;
  std::string name;    ///< Dataset::name()
  std::string digest;  ///< "unreadable" for a sample that cannot be read
};

struct DatasetDigest {
  std::string key;  ///< "data.train", or "data.train.1" in a list
  int64_t size = 0;
  std::string input;  ///< shape of a sample's input
  std::string shape;  ///< the whole DataShape
  std::vector<SampleDigest> samples;
  std::string fingerprint;
};

/// What this rank has read.
struct RankInputs {
  /// Files and their digests: "model.weights/config.json".
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<DatasetDigest> datasets;
};

struct InputDifference {
  std::string text;     ///< "data.train: 99 samples instead of 100"
  std::string consent;  ///< the key for --allow; "": ranks cannot train with it
};

/// Size, shape, fingerprint and up to 8 samples of a dataset: the first, the last and others drawn
/// by `seed`, as many as a second allows.
DatasetDigest digest_of(const std::string& key, const Dataset& dataset, uint64_t seed);

/// Of a job with data and models: its datasets, the files of its options, initial weights and
/// plugins.
RankInputs inputs_of(const Job& job);

std::string text_of(const RankInputs& inputs);
/// Of text_of().
RankInputs inputs_from(const std::string& text);

/// How `other` differs from the inputs of rank 0. Compares the samples that both have.
std::vector<InputDifference> differences(const RankInputs& main, const RankInputs& other);

}  // namespace accel
