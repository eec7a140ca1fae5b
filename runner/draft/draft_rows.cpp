// Drafts for JSON rows: conversations, prompts with completions, labelled texts, documents, tagged
// words.
#include "runner/draft/draft_rows.h"

#include <algorithm>

#include "core/base/convert_command.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/datasets/label_map.h"
#include "runner/draft/rows_plan.h"
#include "runner/draft/target_texts.h"
#include "runner/draft/text_model.h"
#include "runner/draft/training_moments.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTemplateTokens = 32;  ///< around the texts of a sample
constexpr int64_t kBytesPerToken = 3;    ///< of a tokenizer trained on little text

std::string field_type(const RowField& field) {
  if (field.is_unread) return field.type;
  if (field.rows == 0) return "empty";
  if (field.is(&RowField::texts)) {
    const size_t distinct = field.values.counts.size();
    const bool few = field.values.complete && static_cast<int64_t>(distinct) * 2 <= field.rows;
    if (few && distinct == 1) return "text, 1 value";
    return few ? text("text, {} values", distinct) : "text";
  }
  if (field.is(&RowField::integers)) return "integer";
  if (field.is(&RowField::numbers)) return "number";
  if (field.is(&RowField::booleans)) return "boolean";
  if (field.is(&RowField::lists_of_objects)) {
    return text("list of objects: {}",
                joined(field.keys, ", ", [](const auto& key) { return key.first; }));
  }
  if (!field.type.empty()) return field.type;
  if (has_lists_of(field, &RowField::lists_of_texts)) return "list of texts";
  if (has_lists_of(field, &RowField::lists_of_integers)) return "list of integers";
  return field.is(&RowField::objects) ? "object" : "mixed";
}

}  // namespace

void add_field_findings(const SniffedRows& rows, const std::map<std::string, std::string>& uses,
                        RecipeDraft& draft) {
  const std::string name = printable(fs::path(rows.path).filename().string());
  std::string seen = text("{}: {} rows{}", name, rows.rows, rows.array ? " in an array" : "");
  seen += rows.looked_at == rows.rows
              ? ", all looked at"
              : text(", {} of them looked at, spread over the file", rows.looked_at);
  draft.findings.push_back(std::move(seen));
  std::vector<std::vector<std::string>> table = {
      {rows.columns ? "column" : "field", "type", "missing", "use"}};
  for (const RowField& field : rows.fields) {
    const auto use = uses.find(field.name);
    table.push_back({printable(field.name), printable(field_type(field)),
                     field.is_unread ? "" : std::to_string(rows.readable() - field.rows),
                     use == uses.end() ? "not used" : use->second});
  }
  for (std::string& line : aligned_rows(table)) draft.findings.push_back("  " + line);
}

namespace {

/// Rows that the dataset refuses, among those looked at.
int64_t refused_rows(const SniffedRows& rows, const RowsPlan& plan) {
  std::vector<std::string> required = {plan.messages};
  if (!plan.texts.empty()) required.push_back(plan.texts.front());
  if (plan.kind != RowsKind::kText) required.push_back(plan.target);
  int64_t missing = 0;
  for (const std::string& name : required) {
    const RowField* field = rows.find(name);
    if (field) missing = std::max(missing, rows.readable() - field->rows + field->empty_texts);
  }
  if (plan.kind == RowsKind::kTagged) {
    const auto names = std::minmax(plan.texts.front(), plan.target);
    const auto uneven = rows.uneven_lists.find({names.first, names.second});
    if (uneven != rows.uneven_lists.end()) missing = std::max(missing, uneven->second);
  }
  return rows.unreadable + missing;
}

/// `on_bad_sample`, where rows that cannot be used were seen.
void skip_refused_rows(const SniffedRows& rows, const RowsPlan& plan, bool is_one_file,
                       RecipeDraft& draft) {
  const int64_t refused = refused_rows(rows, plan);
  if (refused == 0) return;
  if (!rows.first_unreadable.empty()) draft.findings.push_back(rows.first_unreadable);
  if (plan.kind == RowsKind::kTagged) {
    draft.findings.push_back(text(
        "rows without words or tags, with more of one than of the other, or that are not JSON: "
        "{}; remove them, they end the run",
        refused));
    return;
  }
  // The rows that were not looked at may have as many, and by chance more.
  const int64_t most =
      rows.looked_at == rows.rows ? refused : 2 * refused * rows.rows / rows.looked_at;
  draft.findings.push_back(
      rows.columns
          ? text("rows without a text or a target: {}; they are skipped and counted", refused)
          : text("rows without a field or a text, or that are not JSON: {}; up to {} are skipped "
                 "and counted",
                 refused, most));
  const std::string line = text("on_bad_sample: skip({})", most);
  draft.train.push_back(line);
  if (is_one_file) draft.eval.push_back(line);
}

int64_t power_of_two(int64_t value, int64_t least, int64_t most) {
  int64_t power = least;
  while (power < value && power < most) power *= 2;
  return power;
}

std::string length_line(const SniffedRows& rows, const RowsPlan& plan, int64_t most,
                        const RecipeDraft& draft) {
  int64_t bytes = 0;
  for (const auto& [name, use] : plan.uses) {
    if (use != "target") bytes += rows.find(name)->longest;
  }
  return max_length_line(draft, power_of_two(bytes / kBytesPerToken + kTemplateTokens, 64, most),
                         "tokens; longer ones are cut");
}

/// Every value but the default.
void append_option(std::vector<std::string>& lines, const char* name, const std::string& value,
                   const char* usual) {
  if (!value.empty() && value != usual) lines.push_back(text("{}: {}", name, yaml_text(value)));
}

std::vector<std::string> message_lines(const RowsPlan& plan) {
  std::vector<std::string> lines;
  append_option(lines, "role_key", plan.role_key, "role");
  append_option(lines, "content_key", plan.content_key, "content");
  std::vector<std::string> roles;
  for (const auto& [from, to] : plan.roles) {
    if (from != to) roles.push_back(yaml_key(from) + ": " + to);
  }
  if (!roles.empty()) lines.push_back("roles: {" + joined(roles) + "}");
  append_option(lines, "system", plan.system, "");
  return lines;
}

std::vector<std::string> chat_lines(const SniffedRows& rows, const RowsPlan& plan,
                                    const RecipeDraft& draft) {
  std::vector<std::string> lines;
  append_option(lines, "messages", plan.messages, "messages");
  append_lines(lines, message_lines(plan));
  if (plan.kind == RowsKind::kPair) {
    append_lines(lines, list_lines("prompt", yaml_texts(plan.texts)));
    append_option(lines, "completion", plan.target, "");
  }
  if (plan.last_answer) lines.push_back("answers: last  # earlier ones belong to the prompt");
  lines.push_back(length_line(rows, plan, 1024, draft));
  return lines;
}

std::vector<std::string> preference_lines(const SniffedRows& rows, const RowsPlan& plan,
                                          const RecipeDraft& draft) {
  std::vector<std::string> lines = message_lines(plan);
  append_option(lines, "prompt", plan.prompt, "prompt");
  lines.push_back(length_line(rows, plan, 1024, draft));
  return lines;
}

bool is_preference(const RowsPlan& plan) {
  return plan.kind == RowsKind::kPreference || plan.kind == RowsKind::kUnpaired;
}

bool is_of_one_file(const RowsPlan& plan) {
  return plan.kind == RowsKind::kTagged || plan.kind == RowsKind::kTargets;
}

/// The keys whose texts train a tokenizer.
std::vector<std::string> tokenizer_fields(const RowsPlan& plan) {
  std::vector<std::string> fields = plan.texts;
  if (!plan.prompt.empty()) fields.push_back(plan.prompt);
  if (!plan.content_key.empty()) fields = {plan.content_key};
  if (plan.kind == RowsKind::kPair && plan.content_key.empty()) fields.push_back(plan.target);
  if (!plan.system.empty()) fields.push_back(plan.system);
  return fields;
}

/// Whether texts are rendered by a chat template.
bool uses_template(const RowsPlan& plan) {
  if (is_preference(plan)) return !plan.content_key.empty();
  return plan.kind == RowsKind::kChat || plan.kind == RowsKind::kPair;
}

std::vector<std::string> label_lines(const RowsPlan& plan) {
  std::vector<std::string> lines = list_lines("text", yaml_texts(plan.texts));
  lines.push_back("target: " + yaml_text(plan.target));
  if (plan.is_number || plan.is_flag_list) lines.push_back("target_type: number");
  if (plan.is_label_list) lines.push_back("target_type: labels");
  return lines;
}

/// The classes in the order of their numbers in the dataset, which finds them in the data.
std::vector<ClassCount> numbered_classes(const ValueCounts& values) {
  TextSet names;
  for (const auto& [name, count] : values.counts) names.insert(name);
  const LabelMap labels = LabelMap::found(names);
  std::vector<ClassCount> classes(static_cast<size_t>(labels.count()));
  for (const auto& [name, count] : values.counts) {
    classes[static_cast<size_t>(*labels.find(name))] = {name, count};
  }
  return classes;
}

}  // namespace

void note_classes(const SniffedRows& rows, const RowField& label, RecipeDraft& draft) {
  constexpr size_t kPrinted = 10;
  std::vector<std::string> parts;
  for (const auto& [value, count] : label.values.counts) {
    if (parts.size() < kPrinted) parts.push_back(text("'{}' {}", printable(value), count));
  }
  if (label.values.counts.size() > kPrinted) parts.push_back("...");
  draft.findings.push_back(text("predicts '{}' as one of {} classes: {}", label.name,
                                label.values.counts.size(), joined(parts)));
  if (label.values.counts.size() < 2) {
    throw DataError(text("field '{}' of '{}' has one value, '{}': there is nothing to tell apart",
                         label.name, rows.path, label.values.counts.begin()->first),
                    "name another field with --target, or use '--as text'");
  }
  note_class_counts(numbered_classes(label.values), draft);
}

namespace {

/// The labels that were seen; the dataset finds them anew, in this order.
void note_labels(const SniffedRows& rows, const RowsPlan& plan, RecipeDraft& draft) {
  const RowField& target = *rows.find(plan.target);
  if (plan.is_number) {
    draft.findings.push_back(text("predicts '{}' as a number", plan.target));
  } else if (plan.is_flag_list) {
    draft.findings.push_back(text("predicts each number of '{}', 0 or 1", plan.target));
  } else if (plan.is_label_list) {
    draft.findings.push_back(text("predicts which of the {} labels of '{}' a text has",
                                  target.items.counts.size(), plan.target));
  } else {
    note_classes(rows, target, draft);
  }
}

bool has_entity_tags(const RowField& tags) {
  return std::all_of(tags.items.counts.begin(), tags.items.counts.end(), [](const auto& item) {
    return item.first == "O" || item.first.starts_with("B-") || item.first.starts_with("I-");
  });
}

/// Documents are concatenated, so that nothing is cut; the last tenth is held out.
void draft_documents(const SniffedRows& rows, const RowsPlan& plan, const RowsSource& source,
                     RecipeDraft& draft) {
  const RowField& field = *rows.find(plan.texts.front());
  const int64_t bytes = field.words * 5 / std::max<int64_t>(1, rows.looked_at) * rows.rows;
  int64_t window = power_of_two(bytes / kBytesPerToken / 40, 8, 128);
  if (draft.positions > 0) window = std::min(window, draft.positions);
  draft.train = {"type: text", "level: tokens", "json_field: " + yaml_text(field.name),
                 kTokenizerLine, text("max_seq_len: {}  # tokens of context", window)};
  draft.train.insert(draft.train.begin() + 1, source.train.begin(), source.train.end());
  draft.findings.push_back("the texts are concatenated, so that none is cut");
}

/// DPO needs a model that knows the language; ORPO teaches the chosen answers too.
void choose_preference_task(RecipeDraft& draft) {
  draft.metric = "rewards, logps";
  if (draft.weights.empty()) {
    draft.task = "{type: orpo, beta: 0.1}";
    draft.findings.push_back(
        "the task is 'orpo', which also learns the chosen answers; with --model FOLDER it is "
        "'dpo'");
    return;
  }
  draft.task = "{type: dpo, beta: 0.1, reference: {type: auto, weights: \"${vars.weights}\"}}";
  draft.lr = "5e-7";
  draft.others.push_back("adapters with 'lora', without 'reference' and with 'lr: 5e-6'");
  draft.others.push_back("tasks without a reference: orpo, simpo");
}

void choose_unpaired_task(RecipeDraft& draft) {
  draft.metric = "unpaired_rewards";
  draft.task = "{type: kto, beta: 0.1, reference: {type: auto, weights: \"${vars.weights}\"}}";
  draft.lr = "5e-7";
  draft.others.push_back("adapters with 'lora', without 'reference' and with 'lr: 5e-6'");
}

void choose_task(const SniffedRows& rows, const RowsPlan& plan, RecipeDraft& draft) {
  switch (plan.kind) {
    case RowsKind::kChat:
    case RowsKind::kPair:
    case RowsKind::kText:
      draft.task = "causal_lm";
      draft.metric = "perplexity";
      return;
    case RowsKind::kTargets:
      draft.task = "{type: seq2seq, predict_with_generate: true}";
      draft.metric = "rouge, bleu, perplexity";
      return;
    case RowsKind::kLabel:
      draft.task = plan.is_number ? "regression" : "classification";
      draft.metric = plan.is_number ? "mae" : "accuracy";
      if (plan.is_label_list || plan.is_flag_list) {
        draft.task = "multi_label_classification";
        draft.metric = "label_f1";
      }
      return;
    case RowsKind::kPreference:
      choose_preference_task(draft);
      return;
    case RowsKind::kUnpaired:
      choose_unpaired_task(draft);
      return;
    case RowsKind::kTagged:
      draft.task = "token_classification";
      draft.metric = has_entity_tags(*rows.find(plan.target)) ? "entity_f1, accuracy" : "accuracy";
  }
}

std::string title_of(const RowsPlan& plan, const std::string& name) {
  switch (plan.kind) {
    case RowsKind::kChat:
      return text("Trains on the assistant's answers in the conversations of {}.", name);
    case RowsKind::kPair:
      return text("Trains on the answers to the prompts of {}.", name);
    case RowsKind::kText:
      return text("Language model of the texts of {}.", name);
    case RowsKind::kLabel:
      return text("Predicts '{}' from the texts of {}.", plan.target, name);
    case RowsKind::kPreference:
      return text("Learns the preferences of {}.", name);
    case RowsKind::kUnpaired:
      return text("Learns which answers of {} are desirable.", name);
    case RowsKind::kTagged:
      return text("Tags the words of {}.", name);
    case RowsKind::kTargets:
      return text("Predicts '{}' from the texts of {}.", plan.target, name);
  }
  return "";
}

/// Lines of the dataset beside type, path and tokenizer.
std::vector<std::string> kind_lines(const SniffedRows& rows, const RowsPlan& plan,
                                    const RecipeDraft& draft) {
  if (plan.kind == RowsKind::kChat || plan.kind == RowsKind::kPair)
    return chat_lines(rows, plan, draft);
  if (is_preference(plan)) return preference_lines(rows, plan, draft);
  if (plan.kind == RowsKind::kTargets) return target_lines(rows, plan);
  std::vector<std::string> lines;
  if (plan.kind == RowsKind::kLabel) {
    lines = label_lines(plan);
    lines.push_back(length_line(rows, plan, 256, draft));
    return lines;
  }
  if (plan.kind == RowsKind::kText) {
    lines = list_lines("text", yaml_texts(plan.texts));
    lines.push_back(length_line(rows, plan, 1024, draft));
    return lines;
  }
  append_option(lines, "words", plan.texts.front(), "tokens");
  append_option(lines, "tags", plan.target, "ner_tags");
  lines.push_back(max_length_line(draft, 128));
  return lines;
}

/// The lines of `train` for the eval files.
std::vector<std::string> eval_lines(const RecipeDraft& draft, const RowsSource& source) {
  std::vector<std::string> lines = {draft.train.front()};
  append_lines(lines, source.eval);
  lines.insert(lines.end(),
               draft.train.begin() + 1 + static_cast<std::ptrdiff_t>(source.train.size()),
               draft.train.end());
  return lines;
}

void draft_dataset(const SniffedRows& rows, const RowsPlan& plan, const RowsSource& source,
                   RecipeDraft& draft) {
  const bool chat = plan.kind == RowsKind::kChat || plan.kind == RowsKind::kPair;
  const char* const type = chat                                 ? "chat"
                           : plan.kind == RowsKind::kPreference ? "preference"
                           : plan.kind == RowsKind::kUnpaired   ? "unpaired"
                           : plan.kind == RowsKind::kTagged     ? "token_classification"
                           : plan.kind == RowsKind::kTargets    ? "text_to_text"
                                                                : "jsonl";
  const bool windows = plan.kind == RowsKind::kText && !rows.columns;
  if (windows) {
    draft_documents(rows, plan, source, draft);
  } else {
    const bool by_file = source.type.empty() || is_of_one_file(plan);
    draft.train = {"type: " + (by_file ? type : source.type)};
    append_lines(draft.train, source.train);
    draft.train.push_back(kTokenizerLine);
    append_lines(draft.train, kind_lines(rows, plan, draft));
  }
  if (!source.eval.empty()) {
    draft.eval = eval_lines(draft, source);
    draft.findings.push_back(text("eval: the rows of {}", printable(source.eval_name)));
  } else if (windows) {
    draft.eval = draft.train;
    draft.train.push_back("to: 0.9");
    draft.eval.push_back("from: 0.9  # the last tenth of the texts");
    draft.findings.push_back("eval: the last tenth of the texts, because there is no eval data");
  } else {
    hold_out(draft, rows.rows);
  }
  skip_refused_rows(rows, plan, windows && source.eval.empty(), draft);
}

void add_alternatives(const SniffedRows& rows, const RowsPlan& plan, RecipeDraft& draft) {
  const bool chat = plan.kind == RowsKind::kChat || plan.kind == RowsKind::kPair;
  if (chat) {
    draft.others.push_back("'answers_only: false' trains on the prompts too");
    draft.others.push_back("'pack: true' puts several conversations into one sample");
  }
  if (is_preference(plan) && !uses_template(plan)) {
    draft.others.push_back("'texts_as_messages: true' applies the tokenizer's chat template");
  }
  if (plan.kind == RowsKind::kLabel) {
    draft.others.push_back("a language model of the texts: --as text");
    draft.others.push_back("another label: --target FIELD");
  }
  if (plan.kind == RowsKind::kText && rows.fields.size() > 1) {
    std::vector<std::string> labels = possible_labels(rows);
    std::erase(labels, plan.texts.front());
    for (const std::string& name : labels) {
      draft.others.push_back(
          text("a classifier by '{}': --as classification --target {}", name, shell_word(name)));
    }
    if (labels.empty()) {
      draft.others.push_back("a classifier: --as classification --target FIELD");
    }
  }
}

}  // namespace

RecipeDraft draft_of_rows(const SniffedRows& rows, const RowsSource& source,
                          const DraftRequest& request) {
  const bool to_text = is_encoder_decoder(request.model);
  const RowsPlan plan =
      to_text ? plan_for_targets(plan_rows(rows, request)) : plan_rows(rows, request);
  const fs::path path = rows.path;
  if (is_of_one_file(plan) && !source.is_one_file) {
    throw DataError(
        text("{} in '{}': {} are read from one file, not from the files of a split", plan.reason,
             rows.path, plan.kind == RowsKind::kTagged ? "tagged words" : "source texts"),
        "name a .jsonl, .parquet or .arrow file with all of them, without "
        "'-00000-of-00002' in its name");
  }
  if (rows.columns && (plan.kind == RowsKind::kPair || is_preference(plan))) {
    throw DataError(
        text("{} in '{}': prompts and preferences are read from JSON Lines only", plan.reason,
             rows.path),
        "convert the file, and draft from the new one: " + convert_command(rows.path, ".jsonl"));
  }
  RecipeDraft draft;
  draft.title = title_of(plan, printable(path.filename().string()));
  draft.folder = source.folder;
  add_field_findings(rows, plan.uses, draft);
  draft.findings.push_back(plan.reason);
  if (plan.kind == RowsKind::kLabel) note_labels(rows, plan, draft);
  choose_text_model(draft, request,
                    {.kind = plan.kind == RowsKind::kLabel     ? TextModelKind::kClasses
                             : plan.kind == RowsKind::kTagged  ? TextModelKind::kLabels
                             : plan.kind == RowsKind::kTargets ? TextModelKind::kTargets
                                                               : TextModelKind::kNextTokens,
                     .file = path,
                     .fields = tokenizer_fields(plan),
                     .chat = uses_template(plan),
                     .cased = plan.kind == RowsKind::kTagged,
                     .samples = rows.rows});
  choose_task(rows, plan, draft);
  draft_dataset(rows, plan, source, draft);
  if (plan.is_number) draft.task = regression_task(target_moments(plan, *source.open(), draft));
  add_alternatives(rows, plan, draft);
  return draft;
}

RecipeDraft draft_rows(const fs::path& path, const DraftRequest& request) {
  const auto path_line = [](const fs::path& file) {
    return "path: " + in_data(file.filename().string());
  };
  RowsSource source;
  source.folder = folder_of(path);
  source.train = {path_line(path)};
  source.open = [&] { return json_lines_source(path.string()); };
  if (const fs::path other = eval_file(path); !other.empty()) {
    source.eval = {path_line(other)};
    source.eval_name = other.filename().string();
  }
  return draft_of_rows(sniff_rows(path.string()), source, request);
}

}  // namespace accel
