// The request of `accel-run new`.
#pragma once

#include <string>

namespace accel {

/// The wishes of the user of `accel-run new`.
struct DraftRequest {
  std::string data = {};    ///< a file or folder; empty: the built-in synthetic digits
  std::string recipe = {};  ///< path of the recipe; paths in it are relative to its folder
  std::string as = {};      ///< "chat", "text", "classification" or "tags"; empty: as the data is
  std::string target = {};  ///< column or field to predict; empty: guessed
  std::string tokenizer = {};  ///< a tokenizer.json or its folder; empty: one to be trained
  std::string model = {};  ///< a Hugging Face model folder; empty: a small model without weights
};

}  // namespace accel
