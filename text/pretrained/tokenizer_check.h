// Comparison of two folders' tokenizers, for exports.
#pragma once

#include <filesystem>
#include <string>

namespace accel {

/// How the tokenizer that AutoTokenizer of transformers builds from the folder `exported` differs
/// from that of `trained`, a tokenizer.json or its folder; "" if all probes get the same ids. The
/// probes are some texts and the tokens of the vocabulary.
std::string tokenizer_difference(const std::filesystem::path& trained,
                                 const std::filesystem::path& exported);

}  // namespace accel
