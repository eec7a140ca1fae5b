#include "runner/cli/recipe_draft.h"

#include "core/json_text.h"

namespace accel {
namespace {

void append_lines(std::string& out, const std::vector<std::string>& lines, int indent) {
  for (const std::string& line : lines) out += std::string(indent, ' ') + line + '\n';
}

std::string data_section(const RecipeDraft& draft) {
  std::string out = "data:\n  train:\n";
  append_lines(out, draft.train, 4);
  if (draft.eval.empty()) {
    out +=
        "  # eval: the same keys with another path, to see how well it does on data it has not\n"
        "  # learnt from\n";
  } else {
    out += "  eval:\n";
    append_lines(out, draft.eval, 4);
  }
  if (!draft.transform.empty()) {
    out += "  transform:  # made to each sample, in this order\n";
    append_lines(out, draft.transform, 4);
  }
  return out + "  loader: {workers: 2, shuffle: true}\n\n";
}

std::string eval_section(const RecipeDraft& draft) {
  if (draft.eval.empty()) return "";
  return "eval:\n  every: " + draft.eval_every + "\n  metrics: [" + draft.metric + "]\n\n";
}

}  // namespace

std::string to_recipe(const RecipeDraft& draft) {
  std::string out = "# " + draft.title + '\n';
  out +=
      "# 'accel-run explain KIND NAME' tells every option, such as 'explain optimizer adamw'.\n\n";
  if (!draft.folder.empty()) {
    out += "vars:\n  data: " + quoted(draft.folder) + "  # where the files lie\n\n";
  }
  out += "seed: 42  # the same seed gives the same run, bit for bit\n\nmodel:\n";
  append_lines(out, draft.model, 2);
  out += "\ntask: " + draft.task + "\n\n" + data_section(draft);
  out += "optimizer: {type: adamw, lr: " + draft.lr + ", weight_decay: 0.01}\n";
  out += "scheduler: {type: cosine, warmup: 5%}\n\n";
  out += "train:\n  until: " + draft.until + "  # or steps, samples, tokens, min, h\n";
  out += "  batch: " + std::to_string(draft.batch) + "  # samples per optimizer step\n";
  out += "  max_grad_norm: 1.0\n\n" + eval_section(draft);
  out += "checkpoint:  # Ctrl-C saves too; 'accel-run resume runs/NAME' goes on\n";
  out += "  every: " + draft.eval_every + '\n';
  out += draft.eval.empty() ? "  keep: {last: 2}\n\n"
                            : "  keep: {last: 2, best: 1, by: eval/loss}\n\n";
  return out + "trackers: [tensorboard]  # besides metrics.jsonl, which is always written\n";
}

std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : json_text(text)) out += c == '$' ? "$$" : std::string(1, c);
  return out;
}

std::vector<std::string> list_lines(const std::string& name,
                                    const std::vector<std::string>& items) {
  constexpr size_t kWidth = 90;
  std::vector<std::string> lines = {name + ": ["};
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? ", " : "]");
    if (lines.back().size() + item.size() > kWidth) {
      if (lines.back().back() == ' ') lines.back().pop_back();
      lines.push_back("  ");
    }
    lines.back() += item;
  }
  if (items.empty()) lines.back() += ']';
  return lines;
}

}  // namespace accel
