// Extractive question answering: rows of SQuAD, as windows of tokens.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/api/question_windows.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "core/base/activity.h"
#include "core/base/bytes.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/json_row_keys.h"
#include "data/datasets/text/question_encoder.h"
#include "data/datasets/text/text_columns.h"
#include "data/loader/epoch_order.h"
#include "formats/records/jsonl.h"
#include "text/unicode.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

struct QuestionAnsweringOptions {
  InputFile path;
  InputPath tokenizer;
  std::string id = "id";
  std::string context = "context";
  std::string question = "question";
  std::string answers = "answers";
  int64_t max_length = 384;
  int64_t doc_stride = 128;
  int64_t pad_to_multiple_of = 1;
  OnBadSample on_bad_sample;
};

/// A context and its tokens, of one or more rows.
struct QuestionContext {
  std::string text;
  ContextTokens tokens = {};
  std::string problem = {};  ///< of its tokenization
};

struct QuestionRow {
  std::string id;
  std::string text;
  std::string place;
  int64_t row = 0;  ///< of the file
  size_t context = 0;
  std::vector<std::string> answers = {};
  std::optional<ContextBytes> first = {};  ///< the place of the first answer
  std::vector<int32_t> tokens = {};
  std::string problem = {};
};

struct SampleWindow {
  int64_t question;
  ContextWindow context;
  std::pair<int64_t, int64_t> target;
};

const std::string& squad_text(const Json& row, const std::string& field) {
  const auto found = row.find(field);
  if (found == row.end()) throw FormatError(accel::text("has no field '{}'", field));
  if (found->is_string()) return found->get_ref<const std::string&>();
  throw FormatError(accel::text("has no text in the field '{}'", field));
}

/// The bytes of `answer`, which begins at a character of `context`.
ContextBytes answer_bytes(const std::string& context, int64_t character,
                          const std::string& answer) {
  size_t at = 0;
  for (int64_t i = 0; i < character && at < context.size(); ++i) {
    at += character_at(context, at).bytes;
  }
  if (character < 0 || context.compare(at, answer.size(), answer) != 0) {
    throw FormatError(accel::text("has the answer '{}', but the context does not have it at {}",
                                  answer.substr(0, 60), character));
  }
  return {static_cast<int64_t>(at), static_cast<int64_t>(at + answer.size())};
}

/// The answers of a row: lists of texts and starts, or a list of answers.
std::vector<std::pair<std::string, int64_t>> row_answers(const Json& row,
                                                         const std::string& field) {
  const auto found = row.find(field);
  if (found == row.end()) throw FormatError(accel::text("has no field '{}'", field));
  std::vector<std::pair<std::string, int64_t>> out;
  const auto add = [&](const Json& answer, const Json& start) {
    if (!answer.is_string() || !start.is_number_integer()) {
      throw FormatError(
          accel::text("has no 'text' with its 'answer_start' in the field '{}'", field));
    }
    out.emplace_back(answer.get<std::string>(), start.get<int64_t>());
  };
  if (found->is_null()) return out;
  const auto value_of = [](const Json& object, const char* key) {
    return object.is_object() ? object.value(key, Json()) : Json();
  };
  if (found->is_array()) {
    for (const Json& answer : *found) {
      add(value_of(answer, "text"), value_of(answer, "answer_start"));
    }
    return out;
  }
  const Json texts = value_of(*found, "text");
  const Json starts = value_of(*found, "answer_start");
  if (!texts.is_array() || !starts.is_array() || texts.size() != starts.size()) {
    throw FormatError(accel::text(
        "has no lists 'text' and 'answer_start' of one length in the field '{}'", field));
  }
  for (size_t i = 0; i < texts.size(); ++i) add(texts[i], starts[i]);
  return out;
}

std::string question_id(const Json& row, const std::string& field, int64_t number) {
  const auto found = row.find(field);
  if (found == row.end() || found->is_null()) return std::to_string(number);
  return found->is_string() ? found->get<std::string>() : found->dump();
}

/// Without white space at its beginning, as in run_qa.py.
std::string without_leading_space(const std::string& text) {
  size_t at = 0;
  while (at < text.size() && is_white(character_at(text, at).code)) {
    at += character_at(text, at).bytes;
  }
  return text.substr(at);
}

class QuestionAnsweringRows final : public Dataset,
                                    public QuestionWindows,
                                    public SkipsSamples,
                                    public KnowsLengths,
                                    public RowKeys {
 public:
  static constexpr auto kName = "question_answering";
  static constexpr const char* kHintFor[] = {"squad", "squad_v2", "extractive_qa",
                                             "question-answering"};
  static constexpr auto kSummary =
      "JSON Lines of questions with a context and answers in it, as SQuAD has them, in windows.";

  static Schema<QuestionAnsweringOptions> schema();

  QuestionAnsweringRows(const QuestionAnsweringOptions& options, const DatasetContext& context)
      : options_(options),
        has_answers_(context.targets),
        bad_(options.on_bad_sample, options.path.text),
        tokenizer_(load_tokenizer(options.tokenizer.text)),
        encoder_(tokenizer_) {
    const SharedBytes file = map_file(options_.path.text);
    read(as_text(file.view));
    tokenize();
    make_windows();
    bad_.tell(QuestionAnsweringRows::size());
    if (windows_.empty()) throw DataError(accel::text("'{}' has no lines", options_.path.text));
    Fingerprint print;
    print.add_content(file.view).add(tokenizer_->digest()).add(options_.max_length);
    print.add(options_.doc_stride).add(options_.context).add(options_.question);
    fingerprint_ = print.add(options_.answers).text();
  }

  int64_t size() const override { return static_cast<int64_t>(windows_.size()); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override;
  std::string fingerprint() const override { return fingerprint_; }
  std::string name(int64_t index) const override { return question_of(index).id; }
  int64_t left_out() const override { return bad_.count(); }
  int64_t length(int64_t index) const override { return sample(index).input.count(); }
  std::vector<uint64_t> row_keys(const std::string& column) const override;

  int64_t num_questions() const override { return static_cast<int64_t>(questions_.size()); }
  QuestionText question(int64_t number) const override {
    const QuestionRow& found = questions_[static_cast<size_t>(number)];
    return {found.id, contexts_[found.context].text, found.answers};
  }
  QuestionWindow window(int64_t index) const override;

 private:
  const QuestionRow& question_of(int64_t index) const {
    return questions_[static_cast<size_t>(windows_[static_cast<size_t>(index)].question)];
  }
  const ContextTokens& context_of(const QuestionRow& question) const {
    return contexts_[question.context].tokens;
  }
  TokenPair tokens_of(const QuestionRow& question, const ContextWindow& window) const {
    const std::vector<int32_t>& ids = context_of(question).ids;
    return encoder_.joined(question.tokens,
                           std::span(ids).subspan(static_cast<size_t>(window.first),
                                                  static_cast<size_t>(window.count)));
  }
  void read(std::string_view file);
  void add_row(const Json& row, QuestionRow question);
  void tokenize();
  void make_windows();
  void add_windows(int64_t number);
  std::pair<int64_t, int64_t> target_in(const QuestionRow& question,
                                        const ContextWindow& window) const;

  QuestionAnsweringOptions options_;
  bool has_answers_;
  BadSamples bad_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  QuestionEncoder encoder_;
  std::vector<QuestionContext> contexts_;
  std::vector<QuestionRow> questions_;
  std::vector<SampleWindow> windows_;
  std::string fingerprint_;
};

void QuestionAnsweringRows::read(std::string_view file) {
  int64_t number = 0;
  each_json_row(file, [&](std::string_view row, int64_t line) {
    QuestionRow question;
    question.place = options_.path.text + ":" + std::to_string(line);
    question.row = number++;
    try {
      add_row(read_chat_row(row), question);
    } catch (const FormatError& error) {
      bad_.leave_out(DataError(question.place + ": " + error.what()));
    }
  });
}

/// Rows of one context, which SQuAD has one after the other, share its tokens.
void QuestionAnsweringRows::add_row(const Json& row, QuestionRow question) {
  const std::string& context = squad_text(row, options_.context);
  if (context.empty()) {
    throw FormatError(accel::text("has an empty text in the field '{}'", options_.context));
  }
  question.id = question_id(row, options_.id, question.row);
  question.text = without_leading_space(squad_text(row, options_.question));
  if (has_answers_) {
    for (auto& [answer, start] : row_answers(row, options_.answers)) {
      const ContextBytes bytes = answer_bytes(context, start, answer);
      if (!question.first) question.first = bytes;
      question.answers.push_back(std::move(answer));
    }
  }
  if (contexts_.empty() || contexts_.back().text != context) contexts_.push_back({context});
  question.context = contexts_.size() - 1;
  questions_.push_back(std::move(question));
}

void QuestionAnsweringRows::tokenize() {
  const Activity shown("tokenizing", "texts");
  constexpr size_t kAlone = 64;  // fewer are not worth threads
  const size_t threads = questions_.size() < kAlone ? 1 : usable_cores();
  parallel_for(contexts_.size(), threads, [&](size_t i) {
    try {
      contexts_[i].tokens = encoder_.context(contexts_[i].text);
    } catch (const Error& error) {
      contexts_[i].problem = error.what();
    }
  });
  parallel_for(questions_.size(), threads, [&](size_t i) {
    try {
      questions_[i].tokens = encoder_.question(questions_[i].text);
    } catch (const Error& error) {
      questions_[i].problem = error.what();
    }
  });
}

void QuestionAnsweringRows::make_windows() {
  std::vector<QuestionRow> kept;
  for (QuestionRow& question : questions_) {
    const std::string& problem = contexts_[question.context].problem;
    try {
      if (!problem.empty()) throw FormatError(problem);
      if (!question.problem.empty()) throw FormatError(question.problem);
      const auto number = static_cast<int64_t>(kept.size());
      for (const ContextWindow& window :
           encoder_.windows(static_cast<int64_t>(question.tokens.size()),
                            static_cast<int64_t>(context_of(question).ids.size()),
                            options_.max_length, options_.doc_stride)) {
        windows_.push_back({number, window, target_in(question, window)});
      }
      question.text.clear();  // its tokens are enough
      kept.push_back(std::move(question));
    } catch (const FormatError& error) {
      bad_.leave_out(DataError(question.place + ": " + error.what(),
                               "raise 'max_length', or lower 'doc_stride'"));
    }
  }
  questions_ = std::move(kept);
}

std::pair<int64_t, int64_t> QuestionAnsweringRows::target_in(const QuestionRow& question,
                                                             const ContextWindow& window) const {
  if (!has_answers_) return {kIgnoredTarget, kIgnoredTarget};
  if (question.first) {
    const int64_t before = encoder_.before_context(static_cast<int64_t>(question.tokens.size()));
    const auto found = answer_in(context_of(question).bytes, window, *question.first);
    if (found) return {before + found->first, before + found->second};
  }
  const int64_t none = encoder_.no_answer(tokens_of(question, window));
  return {none, none};
}

Sample QuestionAnsweringRows::sample(int64_t index) const {
  const SampleWindow& window = windows_[static_cast<size_t>(index)];
  const TokenPair tokens = tokens_of(question_of(index), window.context);
  const Shape length = {static_cast<int64_t>(tokens.ids.size())};
  const auto as_array = [&](const std::vector<int32_t>& numbers) {
    return Array::of<int64_t>(DType::kI64, length,
                              std::vector<int64_t>(numbers.begin(), numbers.end()));
  };
  Sample out{as_array(tokens.ids),
             Array::of<int64_t>(DType::kI64, {1, 2},
                                std::vector{window.target.first, window.target.second})};
  if (encoder_.num_types() > 0) out.segments = as_array(tokens.types);
  return out;
}

DataShape QuestionAnsweringRows::shape() const {
  DataShape shape{.input = {options_.max_length},
                  .input_type = DType::kI64,
                  .target = {1, 2},
                  .padding = Padding{.input = tokenizer_->special().pad.value_or(0),
                                     .multiple = options_.pad_to_multiple_of},
                  .segments = encoder_.num_types()};
  describe_tokens(*tokenizer_, shape);
  return shape;
}

QuestionWindow QuestionAnsweringRows::window(int64_t index) const {
  const SampleWindow& found = windows_[static_cast<size_t>(index)];
  const QuestionRow& question = question_of(index);
  return {found.question, encoder_.before_context(static_cast<int64_t>(question.tokens.size())),
          std::span(context_of(question).bytes)
              .subspan(static_cast<size_t>(found.context.first),
                       static_cast<size_t>(found.context.count))};
}

/// Of each window: that of its row.
std::vector<uint64_t> QuestionAnsweringRows::row_keys(const std::string& column) const {
  std::vector<int64_t> rows;
  for (const QuestionRow& question : questions_) rows.push_back(question.row);
  const std::vector<uint64_t> of_rows = json_row_keys(options_.path.text, column, &rows);
  std::vector<uint64_t> out;
  for (const SampleWindow& window : windows_)
    out.push_back(of_rows[static_cast<size_t>(window.question)]);
  return out;
}

Schema<QuestionAnsweringOptions> QuestionAnsweringRows::schema() {
  using Options = QuestionAnsweringOptions;
  return with_bad_samples(
      Schema<Options>()
          .field("path", &Options::path, "The file: an object a line, or an array of objects.")
          .required()
          .field("tokenizer", &Options::tokenizer,
                 "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
          .required()
          .hint_for({"tokenizer_name", "tokenizer_name_or_path", "tokenizer_path"})
          .field("id", &Options::id,
                 "Field of the question's name in predictions; rows without it have their number.")
          .field("context", &Options::context, "Field of the text that contains the answer.")
          .hint_for({"context_column"})
          .field("question", &Options::question, "Field of the question.")
          .hint_for({"question_column"})
          .field("answers", &Options::answers,
                 "Field of the answers: an object with the lists `text` and `answer_start`, in "
                 "characters of the context, or a list of objects with them. Empty or null: the "
                 "context has no answer. The first answer is learnt; the metrics compare with all.")
          .hint_for({"answer_column", "answers_column"})
          .field("max_length", &Options::max_length,
                 "Tokens of a question with a window of its context, special ones included.",
                 at_least<int64_t>(4))
          .hint_for({"max_seq_length", "max_seq_len", "sequence_len"})
          .field("doc_stride", &Options::doc_stride,
                 "Tokens that two successive windows of a longer context have in common.",
                 at_least<int64_t>(0))
          .hint_for({"stride"})
          .field("pad_to_multiple_of", &Options::pad_to_multiple_of,
                 "Micro-batches are filled to their longest sample, rounded up to a multiple of "
                 "this.",
                 at_least<int64_t>(1)));
}

const Register<QuestionAnsweringRows> question_answering_rows;

}  // namespace
}  // namespace accel
