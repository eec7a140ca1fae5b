// Drafts for plain text: a language model of characters, or of bytes where it is not UTF-8.
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "runner/draft/recipe_draft.h"

namespace accel {
namespace {

constexpr size_t kLook = 64 << 10;
constexpr size_t kLeastBytes = 1000;

}  // namespace

RecipeDraft draft_text(const std::filesystem::path& path) {
  const SharedBytes file = map_file(path.string());
  const std::string_view all = as_text(file.view);
  const std::optional<size_t> bad = first_unreadable(all);
  if (bad && *bad < kLook && path.extension() != ".txt") {
    throw DataError(text("unknown format of '{}'", path.string()), known_formats());
  }
  if (all.size() < kLeastBytes) {
    throw DataError(
        text("'{}' has {} bytes, at least 1000 are needed to train", path.string(), all.size()));
  }
  RecipeDraft draft;
  const std::string name = path.filename().string();
  draft.title = text("Character-level language model of {}.", printable(name));
  draft.folder = folder_of(path);
  draft.model = {"type: gpt", "num_layers: 4", "num_heads: 4", "hidden_size: 128"};
  draft.task = "causal_lm";
  draft.metric = "perplexity";
  draft.findings.push_back(
      text("{}: plain text of {} bytes, {}", printable(name), all.size(),
           bad ? "read as bytes, because it is not UTF-8" : "read as UTF-8 characters"));
  draft.findings.push_back("eval: the last tenth of the file");
  draft.others.push_back(
      text("tokens in place of characters: accel-run tokenizer train {} --out tokenizer, then "
           "'level: tokens' and 'tokenizer'",
           shell_word(path)));
  const std::vector<std::string> lines = {"type: text", "path: " + in_data(name),
                                          std::string("level: ") + (bad ? "bytes" : "chars"),
                                          "max_seq_len: 64  # characters of context"};
  draft.train = lines;
  append_lines(draft.train, {"stride: 1  # a sample at every character", "to: 0.9"});
  draft.eval = lines;
  draft.eval.push_back("from: 0.9  # the last tenth of the file");
  draft.until = "2000 steps";
  draft.eval_every = "500 steps";
  draft.batch = 12;
  return draft;
}

}  // namespace accel
