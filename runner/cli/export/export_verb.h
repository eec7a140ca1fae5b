// The export of a checkpoint's model, for the verbs `export` and `push`.
#pragma once

#include <string>

namespace accel {

struct ExportArguments {
  std::string source;          ///< a run folder or a checkpoint
  std::string target;          ///< a folder or a file that must not exist yet
  std::string format;          ///< "gguf" or "transformers"; "": by the target's name
  std::string gguf_type;       ///< "f16", which is also the default
  std::string max_shard_size;  ///< "5 GB", which is also the default
  bool merge = false;          ///< merge a LoRA adapter into the weights
};

/// Writes the model and prints its files. Throws Error for options without effect.
void export_model(const ExportArguments& arguments);

}  // namespace accel
