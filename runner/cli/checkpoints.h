// Checkpoints on the command line: paths, missing inputs of trained models, descriptions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "core/base/files.h"
#include "infer/trained_model.h"

namespace accel {

/// Whether a path is a run folder rather than one of its checkpoints.
bool is_run(const std::string& path);

/// `path` itself, or the newest checkpoint of a run folder. Throws CheckpointError, IoError.
std::string checkpoint_at(DiskFiles& files, const std::string& path);

/// The path without its last slash. Throws Error (kRecipe) when it exists.
std::string new_folder(const std::string& path);
/// The same for a file.
std::string new_file(const std::string& path);

/// Bytes in "5 GB", the value of `flag`. Throws Error (kRecipe).
uint64_t shard_bytes(const std::string& text, const char* flag = "--max-shard-size");

/// A line for each file.
std::string listing_text(const std::vector<DirEntry>& entries);

/// Throws DataError for missing files of the eval data, with a hint that names `--data`.
void require_eval_data(const TrainedModel& trained);

/// The same for the dataset that reads `--input`, its option 'path'.
void require_input(const TrainedModel& trained, const Node& dataset);

/// The same for the tokenizer of the training data, with a hint that names `--tokenizer`.
void require_tokenizer(const TrainedModel& trained);

/// One line per checkpoint of a run, oldest first: progress, metrics and the result of the
/// checksum verification.
std::string list_text(const CheckpointStore& store);

/// The files of a checkpoint, those of its folders of shards as "optimizer_0/__0_0.distcp".
std::vector<DirEntry> checkpoint_files(Files& files, const std::string& folder);

/// Progress, tensors by section, files, metrics and provenance of a checkpoint.
std::string inspect_text(const TrainState& state, const std::vector<DirEntry>& files);

/// All differences of two states, numbers and texts before tensors; empty when they are
/// bit-identical. Recipes, times and tracker ids are not compared, and of different numbers of
/// ranks only the generators that both have.
std::vector<std::string> differences(const TrainState& a, const TrainState& b);

}  // namespace accel
