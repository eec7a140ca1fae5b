#include "runner/draft/target_texts.h"

#include "core/base/text.h"
#include "runner/draft/recipe_draft.h"

namespace accel {
namespace {

/// Tokens for the longest text of a field: a power of two.
int64_t tokens_for(const SniffedRows& rows, const std::string& field) {
  constexpr int64_t kBytesOfToken = 3, kMost = 1024;
  const int64_t wanted = rows.find(field)->longest / kBytesOfToken + 1;
  int64_t tokens = 16;
  while (tokens < wanted && tokens < kMost) tokens *= 2;
  return tokens;
}

}  // namespace

RowsPlan plan_for_targets(RowsPlan plan) {
  const bool is_pair = plan.kind == RowsKind::kPair && plan.content_key.empty();
  if (!is_pair || plan.texts.size() != 1 || !plan.system.empty()) return plan;
  plan.kind = RowsKind::kTargets;
  const std::string& source = plan.texts.front();
  plan.uses[source] = "source";
  plan.uses[plan.target] = "target";
  plan.reason = text("the fields '{}' and '{}' are a source and its target", source, plan.target);
  return plan;
}

std::vector<std::string> target_lines(const SniffedRows& rows, const RowsPlan& plan) {
  const std::string& source = plan.texts.front();
  return {"source: " + yaml_text(source), "target: " + yaml_text(plan.target),
          "source_prefix: \"\"  # such as \"summarize: \", if the model was trained so",
          text("max_source_length: {}  # tokens; longer ones are cut", tokens_for(rows, source)),
          text("max_target_length: {}", tokens_for(rows, plan.target))};
}

}  // namespace accel
