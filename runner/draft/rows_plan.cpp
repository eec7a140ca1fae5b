#include "runner/draft/rows_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/convert_command.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "runner/draft/rows_fields.h"

namespace accel {
namespace {

constexpr size_t kMostLabelNumbers = 20;  ///< a label with more integers is a number
constexpr size_t kMostLabels = 200;

// --- conversations

/// Whether the field is a list of messages; fills the keys and roles of `plan`.
bool read_messages(const RowField& field, RowsPlan& plan) {
  std::optional<MessageKeys> keys = message_keys(field);
  if (!keys) return false;
  plan.role_key = std::move(keys->role_key);
  plan.content_key = std::move(keys->content_key);
  plan.roles = std::move(keys->roles);
  return true;
}

/// Throws unless a role is the assistant's.
void require_assistant(const RowsPlan& plan, const SniffedRows& rows) {
  std::vector<std::string> names;
  for (const auto& [role, usual] : plan.roles) {
    if (usual == "assistant") return;
    names.push_back(role);
  }
  throw DataError(
      text("the conversations of '{}' have no assistant: their roles are {}", rows.path,
           quoted_list(names)),
      "write the recipe by hand with 'roles: {NAME: assistant, OTHER: user}': see docs/chat.md");
}

/// Throws for a list of messages whose texts are under no usual key, or are not all texts.
void refuse_other_messages(const SniffedRows& rows) {
  for (const RowField& field : rows.fields) {
    if (!field.is(&RowField::lists_of_objects)) continue;
    const std::string role = message_key(field, kRoleKeys);
    if (role.empty()) continue;
    for (const char* key : kContentKeys) {
      const auto found = field.all_keys.find(key);
      if (found == field.all_keys.end()) continue;
      const auto texts = field.key_rows.find(key);
      const int64_t other = field.messages - (texts == field.key_rows.end() ? 0 : texts->second);
      throw DataError(text("the messages of '{}' in '{}' have a '{}' that is no text in {} of {}",
                           field.name, rows.path, key, other, field.messages),
                      "texts are wanted: images and other parts of a message are not read; join "
                      "parts of type 'text', and remove conversations with others");
    }
    for (const auto& [key, count] : field.key_rows) {
      if (key == role || count != field.messages) continue;
      throw DataError(text("the messages of '{}' in '{}' have a '{}' and a '{}', and which is "
                           "their text is not known",
                           field.name, rows.path, role, key),
                      text("write the recipe by hand with 'messages: {}', 'role_key: {}', "
                           "'content_key: {}': see docs/chat.md",
                           field.name, role, key));
    }
  }
}

/// The template of a tokenizer that `new` has trained writes texts only.
void require_tool_template(const SniffedRows& rows, const RowField& field,
                           const DraftRequest& request) {
  if (tool_calls_of(field) == 0 || !request.tokenizer.empty() || !request.model.empty()) return;
  throw DataError(
      text("the messages of '{}' in '{}' call tools, which the chat template of a new tokenizer "
           "leaves out",
           field.name, rows.path),
      "name a tokenizer whose template writes them: --tokenizer FOLDER, or --model FOLDER");
}

std::optional<RowsPlan> chat_plan(const SniffedRows& rows, const DraftRequest& request) {
  RowsPlan plan;
  plan.kind = RowsKind::kChat;
  for (const RowField& field : rows.fields) {
    if (field.name == "prompt" || field.name == "completion") continue;  // see pair_plan()
    if (!usable(rows, field.name, {&RowField::lists_of_objects}) || !read_messages(field, plan)) {
      continue;
    }
    require_assistant(plan, rows);
    require_tool_template(rows, field, request);
    plan.messages = field.name;
    plan.uses[field.name] = "conversation";
    for (const char* name : {"tools", "chat_template_kwargs"}) {
      if (rows.find(name)) plan.uses[name] = "for the chat template";
    }
    plan.reason = text("the messages of '{}' have a '{}' and a '{}'", field.name, plan.role_key,
                       plan.content_key);
    if (const RowField* system = text_field_of(rows, {"system", "system_prompt"})) {
      plan.system = system->name;
      plan.uses[system->name] = "system message";
    }
    return plan;
  }
  return std::nullopt;
}

RowsPlan pair_of(const std::vector<const RowField*>& prompts, const RowField& answer) {
  RowsPlan plan;
  plan.kind = RowsKind::kPair;
  std::vector<std::string> names;
  for (const RowField* prompt : prompts) {
    names.push_back(prompt->name);
    plan.uses[prompt->name] = "prompt";
  }
  plan.texts = names;
  plan.target = answer.name;
  plan.uses[answer.name] = "answer";
  names.push_back(answer.name);
  plan.reason = text("the fields {} are a prompt and its answer", quoted_list(names));
  return plan;
}

std::optional<RowsPlan> pair_plan(const SniffedRows& rows) {
  static constexpr std::pair<const char*, const char*> kPairs[] = {
      {"instruction", "output"}, {"instruction", "response"}, {"prompt", "completion"},
      {"prompt", "response"},    {"prompt", "output"},        {"prompt", "answer"},
      {"question", "answer"},    {"question", "response"},    {"query", "response"},
      {"query", "answer"},       {"input", "output"},         {"problem", "solution"},
      {"user", "assistant"},     {"human", "assistant"},      {"article", "summary"},
      {"document", "summary"},   {"dialogue", "summary"},     {"source", "target"}};
  for (const auto& [prompt_name, answer_name] : kPairs) {
    const RowField* prompt = text_field_of(rows, {prompt_name});
    const RowField* answer = text_field_of(rows, {answer_name});
    if (!prompt || !answer) continue;
    std::vector<const RowField*> prompts = {prompt};
    if (prompt->name == "instruction") {
      for (const char* name : {"input", "context"}) {
        const RowField* input = rows.find(name);
        if (input && (input->rows == 0 || input->is(&RowField::texts))) prompts.push_back(input);
      }
    }
    RowsPlan plan = pair_of(prompts, *answer);
    if (const RowField* system = text_field_of(rows, {"system", "system_prompt"})) {
      plan.system = system->name;
      plan.uses[system->name] = "system message";
    }
    return plan;
  }
  // Lists of messages, as in TRL's conversational format.
  RowsPlan plan;
  const RowField* prompt = usable(rows, "prompt", {&RowField::lists_of_objects});
  const RowField* answer = usable(rows, "completion", {&RowField::lists_of_objects});
  if (!prompt || !answer || !read_messages(*prompt, plan)) return std::nullopt;
  RowsPlan out = pair_of({prompt}, *answer);
  std::swap(out.role_key, plan.role_key);
  std::swap(out.content_key, plan.content_key);
  out.last_answer = true;
  return out;
}

// --- preferences

/// The chosen answers of preference pairs as conversations, or as documents.
std::optional<RowsPlan> chosen_plan(const SniffedRows& rows, bool as_chat) {
  const RowField* chosen = rows.find("chosen");
  const RowField* prompt = text_field_of(rows, {"prompt", "question", "instruction", "input"});
  RowsPlan plan;
  if (as_chat && chosen && read_messages(*chosen, plan)) {
    plan.kind = RowsKind::kChat;
    plan.messages = chosen->name;
    plan.uses[chosen->name] = "conversation";
    plan.reason = "'--as chat': the conversations that were chosen";
    require_assistant(plan, rows);
    return plan;
  }
  if (!chosen || !chosen->is(&RowField::texts)) return std::nullopt;
  if (as_chat && prompt) {
    RowsPlan pair = pair_of({prompt}, *chosen);
    pair.reason = "'--as chat': the prompts with the answers that were chosen";
    return pair;
  }
  if (as_chat) return std::nullopt;
  plan.kind = RowsKind::kText;
  plan.texts = {chosen->name};
  plan.uses[chosen->name] = "text";
  plan.reason = "'--as text': the texts that were chosen";
  return plan;
}

/// Pairs of answers, as messages or texts; their prompt is a field or their common beginning.
std::optional<RowsPlan> preference_plan(const SniffedRows& rows) {
  const RowField *chosen = rows.find("chosen"), *rejected = rows.find("rejected");
  if (!chosen || !rejected) return std::nullopt;
  RowsPlan plan;
  plan.kind = RowsKind::kPreference;
  plan.texts = {chosen->name, rejected->name};
  const bool messages = read_messages(*chosen, plan);
  if (!messages && !(chosen->is(&RowField::texts) && rejected->is(&RowField::texts))) {
    throw DataError(
        text("'chosen' and 'rejected' of '{}' are neither texts nor lists of messages", rows.path),
        "write them as texts, or as lists of {role, content}: docs/preference.md");
  }
  const RowField* prompt = first_usable(rows, {"prompt", "question", "instruction", "input"},
                                        {&RowField::texts, &RowField::lists_of_objects});
  if (prompt) plan.prompt = prompt->name;
  if (prompt) plan.uses[prompt->name] = "prompt";
  plan.uses[chosen->name] = "preferred answer";
  plan.uses[rejected->name] = "other answer";
  plan.reason =
      text("'chosen' and 'rejected' are preference pairs of {}{}", messages ? "messages" : "texts",
           prompt ? "" : ", whose common beginning is the prompt");
  return plan;
}

/// Answers with a label, true or false: a prompt and a completion, as messages or texts.
std::optional<RowsPlan> unpaired_plan(const SniffedRows& rows, const DraftRequest& request) {
  const RowField* label = usable(rows, "label", {&RowField::booleans});
  const RowField *prompt = rows.find("prompt"), *answer = rows.find("completion");
  if (!label || !prompt || !answer) return std::nullopt;
  if (request.model.empty()) {
    throw DataError(
        text("the rows of '{}' are answers with a label, true or false (KTO), from which only a "
             "trained model learns",
             rows.path),
        "give '--model FOLDER'; '--as chat' trains on all answers, also those labelled false");
  }
  RowsPlan plan;
  plan.kind = RowsKind::kUnpaired;
  plan.texts = {answer->name};
  plan.prompt = prompt->name;
  const bool messages = read_messages(*answer, plan);
  plan.uses = {
      {prompt->name, "prompt"}, {answer->name, "answer"}, {label->name, "whether it is desirable"}};
  plan.reason = text("'prompt', 'completion' and 'label' are labelled answers of {}",
                     messages ? "messages" : "texts");
  return plan;
}

// --- words, token ids, texts and labels

std::optional<RowsPlan> tagged_plan(const SniffedRows& rows) {
  const RowField* words = first_usable(rows, {"tokens", "words"}, {&RowField::lists_of_texts});
  const RowField* tags =
      first_usable(rows, {"ner_tags", "tags", "labels", "pos_tags", "chunk_tags", "upos"},
                   {&RowField::lists_of_texts, &RowField::lists_of_integers});
  if (!words || !tags) return std::nullopt;
  RowsPlan plan;
  plan.kind = RowsKind::kTagged;
  plan.texts = {words->name};
  plan.target = tags->name;
  plan.uses = {{words->name, "words"}, {tags->name, "tags"}};
  plan.reason = text("'{}' has a tag for each word of '{}'", tags->name, words->name);
  return plan;
}

const RowField* longest_text(const SniffedRows& rows) {
  const RowField* best = nullptr;
  for (const RowField& field : rows.fields) {
    if (!usable(rows, field.name, {&RowField::texts}) || field.words < 3 * field.texts) continue;
    if (!best || field.words * best->texts > best->words * field.texts) best = &field;
  }
  return best;
}

/// The fields of a text or of two texts that belong together.
std::vector<std::string> find_texts(const SniffedRows& rows, const std::string& target) {
  static constexpr std::pair<const char*, const char*> kTwo[] = {
      {"premise", "hypothesis"},   {"sentence1", "sentence2"}, {"question1", "question2"},
      {"text1", "text2"},          {"question", "sentence"},   {"question", "passage"},
      {"sentence_a", "sentence_b"}};
  for (const auto& [first, second] : kTwo) {
    if (text_field_of(rows, {first}) && text_field_of(rows, {second})) return {first, second};
  }
  const RowField* text = text_field_of(
      rows, {"text", "sentence", "review", "content", "body", "comment", "tweet", "document",
             "article", "abstract", "description", "message", "passage", "utterance", "story"});
  if (!text) text = longest_text(rows);
  return text && text->name != target ? std::vector<std::string>{text->name}
                                      : std::vector<std::string>{};
}

bool is_label(const RowField& field) {
  if (field.is(&RowField::numbers) || field.is(&RowField::booleans)) return true;
  const bool repeats =
      field.rows < 10 || static_cast<int64_t>(field.values.counts.size()) * 2 <= field.rows;
  return field.is(&RowField::texts) && field.values.complete &&
         field.values.counts.size() <= kMostLabels && repeats;
}

/// Lists of labels; decides whether they are numbers of labels, or 0 and 1 for each label.
void plan_label_lists(const SniffedRows& rows, const RowField& field, RowsPlan& plan) {
  const bool texts = has_lists_of(field, &RowField::lists_of_texts);
  const bool integers = has_lists_of(field, &RowField::lists_of_integers);
  if (!texts && !integers) {
    throw DataError(text("field '{}' of '{}' has lists, but not in all rows lists of labels: of "
                         "texts, of integers, or empty",
                         field.name, rows.path),
                    "write the labels of all rows alike, or name another field with --target");
  }
  const auto is_flag = [](const auto& item) { return item.first == "0" || item.first == "1"; };
  plan.is_flag_list = integers && field.items.complete && field.empty_lists == 0 &&
                      std::all_of(field.items.counts.begin(), field.items.counts.end(), is_flag);
  plan.is_label_list = !plan.is_flag_list;
  plan.reason =
      plan.is_flag_list
          ? text("'{}' has a 0 or 1 for each label of {}", field.name, quoted_list(plan.texts))
          : text("'{}' is a list of labels of {}", field.name, quoted_list(plan.texts));
}

/// The label: the wished field, or the first with a usual name.
const RowField* find_label(const SniffedRows& rows, const DraftRequest& request) {
  if (!request.target.empty()) {
    const RowField* field = rows.find(request.target);
    if (field) return field;
    throw Error(ExitCode::kRecipe, text("'{}' has no field '{}'", rows.path, request.target),
                text("it has the fields {}", quoted_list([&] {
                       std::vector<std::string> names;
                       for (const RowField& each : rows.fields) names.push_back(each.name);
                       return names;
                     }())));
  }
  for (const char* name : {"label", "labels", "target", "class", "category", "sentiment", "stars",
                           "rating", "score", "intent", "emotion", "topic"}) {
    const RowField* field = rows.find(name);
    if (field && field->rows * 2 >= rows.readable()) return field;
  }
  return nullptr;
}

std::optional<RowsPlan> label_plan(const SniffedRows& rows, const DraftRequest& request) {
  const RowField* label = find_label(rows, request);
  if (!label) return std::nullopt;
  const std::vector<std::string> texts = find_texts(rows, label->name);
  if (texts.empty()) return std::nullopt;
  RowsPlan plan;
  plan.kind = RowsKind::kLabel;
  plan.texts = texts;
  plan.target = label->name;
  for (const std::string& name : texts) plan.uses[name] = "text";
  plan.uses[label->name] = "target";
  if (label->lists_of_integers + label->lists_of_texts + label->other_lists > 0) {
    plan_label_lists(rows, *label, plan);
    return plan;
  }
  if (!is_label(*label)) {
    const int64_t texts_of = label->texts, numbers = label->numbers;
    if (texts_of > 0 && numbers > 0) {
      throw DataError(text("field '{}' of '{}' is a text in {} rows and a number in {}",
                           label->name, rows.path, texts_of, numbers),
                      "write all labels as texts, or all as numbers");
    }
    if (request.target.empty() && request.as.empty()) return std::nullopt;
    throw DataError(text("field '{}' of '{}' is not a label: a number, or at most {} texts that "
                         "repeat, are wanted",
                         label->name, rows.path, kMostLabels),
                    "name another field with --target");
  }
  const bool many = label->values.counts.size() > kMostLabelNumbers;
  plan.is_number = label->is(&RowField::numbers) && (many || !label->is(&RowField::integers));
  plan.reason = text("'{}' is a label of {}", label->name, quoted_list(texts));
  return plan;
}

std::optional<RowsPlan> text_plan(const SniffedRows& rows) {
  const std::vector<std::string> texts = find_texts(rows, "");
  if (texts.empty()) return std::nullopt;
  RowsPlan plan;
  plan.texts = {texts.front()};
  plan.uses[texts.front()] = "text";
  const RowField* label = find_label(rows, {});
  plan.reason =
      label ? text("'{}' is text, and '{}' is no label: a number, or texts that repeat, are wanted",
                   texts.front(), label->name)
            : text("'{}' is text, and no field has the name of a label", texts.front());
  return plan;
}

/// Throws for a file of one object that holds the rows, or the columns of a table.
void refuse_nested_rows(const SniffedRows& rows) {
  if (rows.rows != 1) return;
  bool columns = rows.fields.size() > 1;
  for (const RowField& field : rows.fields) {
    columns = columns && field.lists_of_texts + field.lists_of_integers + field.other_lists == 1;
    if (!field.is(&RowField::lists_of_objects)) continue;
    throw DataError(
        text("'{}' is one object, whose rows are in the field '{}'", rows.path, field.name),
        text("write the rows alone: jq -c '.{}[]' FILE > rows.jsonl", field.name));
  }
  if (columns) {
    throw DataError(text("'{}' is one object with a list for each column", rows.path),
                    "write an object for each row: pandas.read_json(FILE).to_json('rows.jsonl', "
                    "orient='records', lines=True)");
  }
}

[[noreturn]] void refuse_unknown(const SniffedRows& rows) {
  if (!rows.columns) refuse_nested_rows(rows);
  if (const RowField* ids = first_usable(rows, {"input_ids", "ids", "token_ids", "tokens"},
                                         {&RowField::lists_of_integers})) {
    throw DataError(
        text("field '{}' of '{}' holds token ids, which are read from Parquet and Arrow files only",
             ids->name, rows.path),
        "write the rows as a Parquet file, for the dataset 'hf_tokens': "
        "pandas.read_json(FILE, lines=True).to_parquet('ids.parquet')");
  }
  std::vector<std::string> names;
  bool flat = true;
  for (const RowField& field : rows.fields) {
    names.push_back(field.name);
    flat = flat && (rows.columns || field.is(&RowField::numbers) || field.is(&RowField::booleans) ||
                    field.is(&RowField::texts));
  }
  if (flat) {
    throw DataError(
        text("the rows of '{}' are numbers and categories, which are read from tables only",
             rows.path),
        rows.columns
            ? "convert the file, and draft from the new one: " + convert_command(rows.path, ".csv")
            : "write them as a table: pandas.read_json(FILE, lines=True).to_csv('rows.csv', "
              "index=False); then 'accel-run new RECIPE rows.csv'");
  }
  throw DataError(
      text("cannot tell what the rows of '{}' are: they have the fields {}", rows.path,
           quoted_list(names)),
      "known are 'messages', 'conversations', prompt and completion, text and label, text, tokens "
      "and tags; rename the fields, or write the recipe by hand: docs/data.md");
}

/// The plan for `--as`, or Error(kRecipe).
RowsPlan wished_plan(const SniffedRows& rows, const DraftRequest& request) {
  std::optional<RowsPlan> plan;
  const bool preferences = rows.find("chosen") && rows.find("rejected");
  if (request.as == "chat") {
    plan = preferences ? chosen_plan(rows, true) : chat_plan(rows, request);
    if (!plan && !preferences) plan = pair_plan(rows);
  } else if (request.as == "text") {
    plan = preferences ? chosen_plan(rows, false) : text_plan(rows);
    if (plan && !preferences) plan->reason = "'--as text'";
  } else if (request.as == "classification") {
    plan = label_plan(rows, request);
  } else if (request.as == "preference") {
    plan = preference_plan(rows);
    if (!plan) plan = unpaired_plan(rows, request);
  } else if (request.as == "tags") {
    plan = tagged_plan(rows);
  }
  if (plan) return *plan;
  throw Error(ExitCode::kRecipe,
              text("the rows of '{}' are not read as '{}'", rows.path, request.as),
              "leave out '--as': it prints what the rows are");
}

}  // namespace

RowsPlan plan_rows(const SniffedRows& rows, const DraftRequest& request) {
  if (!request.as.empty()) return wished_plan(rows, request);
  if (std::optional<RowsPlan> plan = preference_plan(rows)) return *plan;
  if (std::optional<RowsPlan> plan = unpaired_plan(rows, request)) return *plan;
  if (!request.target.empty()) {
    if (std::optional<RowsPlan> plan = label_plan(rows, request)) return *plan;
  }
  if (std::optional<RowsPlan> plan = chat_plan(rows, request)) return *plan;
  if (std::optional<RowsPlan> plan = tagged_plan(rows)) return *plan;
  if (std::optional<RowsPlan> plan = pair_plan(rows)) return *plan;
  if (std::optional<RowsPlan> plan = label_plan(rows, request)) return *plan;
  refuse_other_messages(rows);
  if (std::optional<RowsPlan> plan = text_plan(rows)) return *plan;
  refuse_unknown(rows);
}

std::vector<std::string> possible_labels(const SniffedRows& rows) {
  std::vector<std::string> names;
  for (const RowField& field : rows.fields) {
    const size_t values = field.values.counts.size();
    if (field.rows * 2 < rows.readable() || !is_label(field)) continue;
    if (field.values.complete && values >= 2 && values <= kMostLabelNumbers) {
      names.push_back(field.name);
    }
  }
  return names;
}

}  // namespace accel
