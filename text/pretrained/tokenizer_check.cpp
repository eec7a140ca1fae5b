#include "text/pretrained/tokenizer_check.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/pretrained/tokenizer_folder.h"
#include "text/tokenizer.h"

namespace accel {
namespace {

constexpr int64_t kMostProbes = 20'000;
constexpr const char* kProbes[] = {"Hello, world!", " it's  2024:\n\n\tan example",
                                   "e\u0301 \u00e9 \u4e2d\u6587", "f(x) = 12345 - don't"};

std::vector<std::string> probes_of(const Tokenizer& tokenizer) {
  std::vector<std::string> probes(std::begin(kProbes), std::end(kProbes));
  const int64_t tokens = tokenizer.vocab_size();
  const int64_t step = std::max<int64_t>(1, tokens / kMostProbes);
  for (int64_t id = 0; id < tokens; id += step) {
    const int32_t one[] = {static_cast<int32_t>(id)};
    probes.push_back(tokenizer.decode(one, /*skip_special=*/false));
  }
  return probes;
}

/// "[5, 7]", or why the text has none.
std::string ids_text(const Tokenizer& tokenizer, const std::string& probe) {
  try {
    const auto number = [](int32_t id) { return std::to_string(id); };
    return "[" + joined(tokenizer.encode(probe), ", ", number) + "]";
  } catch (const DataError& error) {
    return error.what();
  }
}

std::string builder_of(const std::filesystem::path& folder) {
  const std::string built_by = read_tokenizer_folder(folder / "tokenizer.json").built_by;
  return built_by.empty() ? "tokenizer.json is taken as it is"
                          : text("its class rebuilds it, because {}", built_by);
}

}  // namespace

std::string tokenizer_difference(const std::filesystem::path& trained,
                                 const std::filesystem::path& exported) {
  std::shared_ptr<const Tokenizer> ours, theirs;
  try {
    ours = load_tokenizer(trained);
    theirs = load_tokenizer(exported);
  } catch (const DataError& error) {
    return text("the tokenizer that transformers builds from the folder is unknown: {}",
                error.what());
  }
  if (theirs->digest() == ours->digest()) return "";
  for (const std::string& probe : probes_of(*ours)) {
    const std::string wanted = ids_text(*ours, probe), found = ids_text(*theirs, probe);
    if (wanted == found) continue;
    return text(
        "transformers builds another tokenizer from the folder than the run had: {}; "
        "'{}' gets the ids {} instead of {}; "
        "PreTrainedTokenizerFast.from_pretrained() reads tokenizer.json as it is",
        builder_of(exported), printable(probe), found, wanted);
  }
  return "";
}

}  // namespace accel
