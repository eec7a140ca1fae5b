#include "runner/draft/recipe_draft.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEvalWords[] = {"dev", "valid", "validation", "val", "test", "eval", "t10k"};

void indent_lines(std::string& out, const std::vector<std::string>& lines, int indent) {
  for (const std::string& line : lines) out += std::string(indent, ' ') + line + '\n';
}

std::string comment_block(const RecipeDraft& draft) {
  std::string out = "# " + printable(draft.title) + "\n";
  for (const std::string& line : draft.findings) out += "#   " + printable(line) + '\n';
  for (const std::string& line : draft.others) {
    out += "#   also possible: " + printable(line) + '\n';
  }
  return out +
         "# 'accel-run explain KIND NAME' lists the options, such as 'explain optimizer "
         "adamw'.\n\n";
}

std::string vars_section(const RecipeDraft& draft, const std::string& recipe) {
  if (draft.folder.empty()) return "";
  std::string out = "vars:\n";
  const auto add = [&](const char* name, const fs::path& path, const std::string& comment) {
    if (path.empty()) return;
    out += std::string("  ") + name + ": " + yaml_text(path_in_recipe(path, recipe)) + "  # " +
           printable(comment) + '\n';
  };
  add("data", draft.folder, "folder of the data");
  add("weights", draft.weights, "folder of the pretrained model");
  add("tokenizer", draft.tokenizer,
      draft.first_command.empty() ? "a tokenizer.json, or its folder"
                                  : "first: " + draft.first_command);
  return out + '\n';
}

std::string data_section(const RecipeDraft& draft) {
  std::string out = "data:\n  train:\n";
  indent_lines(out, draft.train, 4);
  if (!draft.eval.empty()) {
    out += "  eval:\n";
    indent_lines(out, draft.eval, 4);
  } else if (!draft.split.empty()) {
    out += "  split: " + draft.split + "  # held out of the training data\n";
  } else {
    out += "  # eval: the same keys with another path, to measure generalization to unseen data\n";
  }
  if (!draft.transform.empty()) {
    out += "  transform:  # applied to each sample in this order\n";
    indent_lines(out, draft.transform, 4);
  }
  return out + "  loader: {workers: 2, shuffle: true}\n\n";
}

std::string eval_section(const RecipeDraft& draft) {
  if (!draft.has_eval()) return "";
  std::string out = "eval:\n  every: " + draft.eval_every + '\n';
  const std::string more = draft.is_imbalanced ? ", f1" : "";
  if (!draft.metric.empty()) out += "  metrics: [" + draft.metric + more + "]\n";
  return out + '\n';
}

size_t shown_width(const std::string& text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size(); at += std::max<size_t>(1, character_length(text, at))) {
    const size_t bytes = std::max<size_t>(1, character_length(text, at));
    width += display_width(std::string_view(text).substr(at, bytes));
  }
  return width;
}

}  // namespace

void hold_out(RecipeDraft& draft, int64_t samples) {
  constexpr int64_t kLeast = 5;
  if (samples < kLeast) {
    draft.findings.push_back(
        text("eval: none, because {} samples are too few to hold any out", samples));
    return;
  }
  constexpr int64_t kFixed = 2;
  const bool is_fixed = samples < 20;
  draft.split_samples = is_fixed ? kFixed : 0;
  draft.split_share = is_fixed ? 0 : 0.1;
  draft.split =
      text("{eval: {}, seed: {}}", is_fixed ? std::to_string(kFixed) : "10%", kDraftSplitSeed);
  const int64_t held_out = is_fixed ? kFixed : samples / 10;
  if (samples < kFewSamples) {
    draft.findings.push_back(
        text("eval: about {} of {} samples are held out, too few to trust the metric: add data, or "
             "remove 'split' and 'eval'",
             held_out, samples));
  } else {
    draft.findings.push_back(
        text("eval: 10% of the samples are held out, about {}, because there is no eval data",
             held_out));
  }
}

int64_t batch_for(int64_t samples, int64_t most) {
  int64_t batch = most;
  while (batch > 2 && batch * 8 > samples) batch /= 2;
  return batch;
}

std::string recipe_text(const RecipeDraft& draft, const DraftRequest& request) {
  std::string out = comment_block(draft) + vars_section(draft, request.recipe);
  out += "seed: 42  # the same seed gives the same run, bit for bit\n\nmodel:\n";
  indent_lines(out, draft.model, 2);
  out += "\ntask: " + draft.task + "\n\n" + data_section(draft);
  out += "optimizer: {type: adamw, lr: " + draft.lr + ", weight_decay: 0.01}\n";
  out += "scheduler: {type: cosine, warmup: 5%}\n\n";
  out += "train:\n  until: " + draft.until + "  # or steps, samples, tokens, min, h\n";
  out += "  batch: " + std::to_string(draft.batch) + "  # samples per optimizer step\n";
  out += "  max_grad_norm: 1.0\n\n" + eval_section(draft);
  out += "checkpoint:  # Ctrl-C saves too; resume with: accel-run resume runs/NAME\n";
  out += "  every: " + draft.eval_every + '\n';
  out += draft.has_eval() ? "  keep: {last: 2, best: 1, metric: eval/loss}\n\n"
                          : "  keep: {last: 2}\n\n";
  return out + "trackers: [tensorboard]  # in addition to metrics.jsonl\n";
}

std::string path_in_recipe(const fs::path& path, const std::string& recipe) {
  const fs::path full = fs::absolute(path).lexically_normal();
  const fs::path home = fs::absolute(recipe).lexically_normal().parent_path();
  const fs::path relative = full.lexically_relative(home);
  const fs::path parent = home.parent_path();
  const bool is_far = relative.empty() || *relative.begin() == fs::path("..");
  const bool is_beside = is_far && parent != home && parent != parent.root_path() &&
                         !full.lexically_relative(parent).empty() &&
                         *full.lexically_relative(parent).begin() != fs::path("..");
  return is_far && !is_beside ? full.string() : relative.string();
}

std::string yaml_text(const std::string& text) {
  std::string out;
  for (const char c : json_text(text)) out += c == '$' ? "$$" : std::string(1, c);
  return out;
}

std::string yaml_key(const std::string& text) {
  return json_text(text);
}

std::vector<std::string> yaml_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(yaml_text(text));
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

std::string in_data(const std::string& name) {
  return "\"${vars.data}/" + yaml_text(name).substr(1);
}

void append_lines(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

fs::path eval_file(const fs::path& train) {
  const std::string name = train.filename().string();
  const size_t at = name.find("train");
  if (at == name.npos) return {};
  for (const char* word : kEvalWords) {
    const fs::path other = train.parent_path() / std::string(name).replace(at, 5, word);
    if (fs::is_regular_file(other)) return other;
  }
  return {};
}

std::string shell_word(const fs::path& path) {
  const std::string word = path.string();
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("/._-+=:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> aligned_rows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], shown_width(row[i]));
  }
  std::vector<std::string> out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - shown_width(row[i]) + 2, ' ');
    }
    out.push_back(std::move(line));
  }
  return out;
}

namespace {

void note_rare_classes(const std::vector<ClassCount>& classes, RecipeDraft& draft) {
  std::vector<std::string> rare;
  for (const auto& [name, count] : classes) {
    if (count == 1) rare.push_back(printable(name));
  }
  if (rare.empty()) return;
  constexpr size_t kPrinted = 5;
  const size_t more = rare.size() - std::min(rare.size(), kPrinted);
  rare.resize(rare.size() - more);
  draft.findings.push_back(
      text("one sample only: {}{}; a class needs several to be learnt and to be evaluated",
           quoted_list(rare), more == 0 ? "" : text(", and {} more classes", more)));
}

/// Weights by which all classes have the same share of the loss: samples / (classes * count).
std::string balanced_weights(const std::vector<ClassCount>& classes, double samples) {
  const auto weight = [&](const ClassCount& each) {
    char digits[32];
    const double share = static_cast<double>(each.second) * static_cast<double>(classes.size());
    std::snprintf(digits, sizeof digits, "%.3g", each.second > 0 ? samples / share : 1.0);
    return std::string(digits);
  };
  return joined(classes, ", ", weight);
}

}  // namespace

void note_class_counts(const std::vector<ClassCount>& classes, RecipeDraft& draft) {
  constexpr int64_t kRatio = 10, kMostWeights = 20;
  constexpr double kShare = 0.8;
  note_rare_classes(classes, draft);
  int64_t samples = 0;
  const ClassCount *most = nullptr, *least = nullptr;
  for (const ClassCount& each : classes) {
    if (each.second == 0) continue;
    samples += each.second;
    if (!most || each.second > most->second) most = &each;
    if (!least || each.second < least->second) least = &each;
  }
  if (!most || most == least) return;
  const auto all = static_cast<double>(samples);
  const double share = static_cast<double>(most->second) / all;
  if (share < kShare && most->second < kRatio * least->second) return;
  draft.is_imbalanced = true;
  char accuracy[16];
  std::snprintf(accuracy, sizeof accuracy, "%.2f", share);
  draft.findings.push_back(
      text("imbalanced classes: {} samples of '{}', {} of '{}'; always predicting '{}' has an "
           "accuracy of {}, so f1, which counts all classes alike, is measured too",
           most->second, printable(most->first), least->second, printable(least->first),
           printable(most->first), accuracy));
  if (classes.size() > kMostWeights) return;
  draft.others.push_back(
      text("the same weight of all classes in the loss: 'task: {type: "
           "classification, class_weights: [{}]}'",
           balanced_weights(classes, all)));
}

const char* known_formats() {
  return "known are .csv, .tsv, .jsonl, .json, .parquet, .arrow, class folders of JPEG or PNG "
         "images (also in a .tar), IDX files, CoNLL files and plain text";
}

}  // namespace accel
