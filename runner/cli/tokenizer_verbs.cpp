// tokenizer train, encode, decode, chat and inspect. None of them needs libtorch.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/activity.h"
#include "core/base/bytes.h"
#include "core/base/files.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/datasets/text/chat_encoder.h"
#include "runner/cli/cli.h"
#include "runner/draft/field_texts.h"
#include "text/tokenizer.h"
#include "text/train.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct TokenizerArguments {
  std::vector<std::string> files;
  std::string model = "bpe";
  std::vector<std::string> fields;  ///< of the files, instead of their whole text
  int64_t vocab_size = 8000;
  std::string out;  ///< the folder to create
  bool cased = false;
  bool chatml = false;

  std::string tokenizer;
  std::string text;
  std::string file;  ///< instead of the text
  std::vector<int32_t> ids;
  std::string chat_template;  ///< instead of the tokenizer's
  std::string date;           ///< of strftime_now
  bool has_text = false;
  bool plain = false;       ///< without special tokens
  bool tokens = false;      ///< print tokens instead of ids
  bool json_lines = false;  ///< each line of the file is a JSON string
};

/// Writes the folder with both files atomically.
void write_tokenizer(const fs::path& folder, const TrainedTokenizer& trained) {
  const fs::path partial = folder.string() + ".partial";
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) throw IoError(text("cannot create '{}': {}", partial.string(), error.message()));
  write_file_atomically(partial / "tokenizer.json", trained.tokenizer);
  write_file_atomically(partial / "tokenizer_config.json", trained.config);
  publish_file(partial, folder);
}

[[noreturn]] void throw_usage(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

SharedBytes read_text(const std::string& file) {
  if (!fs::exists(file)) throw DataError(text("no file '{}'", file), "check its name");
  return map_file(file);
}

ExitCode train_verb(const TokenizerArguments& arguments) {
  if (fs::exists(arguments.out)) {
    throw_usage(text("'{}' already exists", arguments.out),
                "give another name; files are never overwritten");
  }
  if (arguments.cased && arguments.model != "wordpiece") {
    throw_usage("'--cased' is an option of --model wordpiece",
                "leave it out: bpe keeps capitals and accents");
  }
  if (arguments.chatml && arguments.model == "wordpiece") {
    throw_usage("'--chatml' is an option of --model bpe", "wordpiece tokenizes no conversations");
  }
  std::vector<SharedBytes> files;
  std::vector<std::string> fields;
  std::vector<std::string_view> texts;
  for (const std::string& file : arguments.files) {
    files.push_back(read_text(file));
    if (arguments.fields.empty()) {
      texts.push_back(as_text(files.back().view));
    } else {
      append_field_texts(file, arguments.fields, fields);
    }
  }
  texts.insert(texts.end(), fields.begin(), fields.end());
  TrainingOptions options;
  options.chatml = arguments.chatml;
  options.wordpiece = arguments.model == "wordpiece";
  options.cased = arguments.cased;
  options.vocab_size = arguments.vocab_size;
  const TrainedTokenizer trained = [&] {
    const Activity shown("training the tokenizer");
    return train_tokenizer(texts, options);
  }();
  write_tokenizer(arguments.out, trained);
  std::cout << arguments.out << ": " << trained.vocab_size << " tokens";
  if (trained.vocab_size < arguments.vocab_size) {
    std::cout << ", fewer than " << arguments.vocab_size << ": no other pair occurs twice";
  }
  std::cout << '\n';
  return ExitCode::kDone;
}

void print_ids(const Tokenizer& tokenizer, std::string_view text,
               const TokenizerArguments& arguments) {
  const char* before = "";
  for (const int32_t id : tokenizer.encode(text, !arguments.plain)) {
    std::cout << before << (arguments.tokens ? printable(tokenizer.token(id)) : std::to_string(id));
    before = " ";
  }
  std::cout << '\n';
}

/// The string of a JSON line.
std::string json_string(std::string_view line, size_t number, const std::string& file) {
  const auto value = nlohmann::json::parse(line, nullptr, false);
  if (!value.is_string()) {
    throw DataError(text("'{}': line {} is not a JSON string", file, number),
                    "write each text in quotes, or leave out --json-lines");
  }
  return value.get<std::string>();
}

ExitCode encode_verb(const TokenizerArguments& arguments) {
  if (arguments.file.empty() && (!arguments.has_text || arguments.json_lines)) {
    throw_usage(arguments.json_lines ? "'--json-lines' needs a file" : "there is no text to encode",
                "give a text, or --file with a file");
  }
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  if (arguments.file.empty()) {
    print_ids(*tokenizer, arguments.text, arguments);
    return ExitCode::kDone;
  }
  const SharedBytes file = read_text(arguments.file);
  std::string_view rest = as_text(file.view);
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (arguments.json_lines) {
      print_ids(*tokenizer, json_string(line, number, arguments.file), arguments);
    } else {
      print_ids(*tokenizer, line, arguments);
    }
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return ExitCode::kDone;
}

ExitCode decode_verb(const TokenizerArguments& arguments) {
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  for (const int32_t id : arguments.ids) {
    if (id >= 0 && id < tokenizer->vocab_size()) continue;
    throw_usage(text("there is no token {}", id),
                text("ids are from 0 to {}", tokenizer->vocab_size() - 1));
  }
  std::cout << tokenizer->decode(arguments.ids, arguments.plain) << '\n';
  return ExitCode::kDone;
}

/// Prints the tokens of each line as the dataset `chat` encodes it.
ExitCode chat_verb(const TokenizerArguments& arguments) {
  const auto own = find_chat_template(arguments.tokenizer);
  if (arguments.chat_template.empty() && !own) {
    throw DataError(text("the tokenizer '{}' has no chat template", arguments.tokenizer),
                    "name a file with --template");
  }
  const std::string source = arguments.chat_template.empty()
                                 ? *own
                                 : std::string(as_text(read_text(arguments.chat_template).view));
  const SharedBytes file = read_text(arguments.file);
  std::string_view rest = as_text(file.view);
  size_t number = 0;
  try {
    const std::optional<ChatDate> date =
        arguments.date.empty() ? std::optional<ChatDate>() : ChatDate(arguments.date);
    const ChatEncoder encoder(load_tokenizer(arguments.tokenizer), ChatTemplate(source, date),
                              ChatAnswers::kAll);
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      ++number;
      const ChatTokens tokens = encoder.encode(read_chat_row(line));
      const nlohmann::ordered_json out = {{"ids", tokens.ids}, {"answers", tokens.answers}};
      std::cout << out.dump() << '\n';
    }
  } catch (const FormatError& error) {
    throw DataError(number == 0 ? text("the chat template: {}", error.what())
                                : text("{}:{}: {}", arguments.file, number, error.what()));
  }
  return ExitCode::kDone;
}

/// "to 512 tokens, the longer text of a pair first, on the right"
std::string truncation_text(const TruncationConfig& truncation) {
  const char* strategy =
      truncation.strategy == TruncationStrategy::kLongestFirst ? "the longer text of a pair first"
      : truncation.strategy == TruncationStrategy::kOnlyFirst  ? "only the first text of a pair"
                                                               : "only the second text of a pair";
  return accel::text("to {} tokens, {}, on the {}; a recipe's 'max_length' takes precedence",
                     truncation.max_length, strategy, truncation.from_left ? "left" : "right");
}

/// "on the right to the longest, with 0 [PAD]"
std::string padding_text(const PaddingConfig& padding) {
  std::string out = padding.on_left ? "on the left to " : "on the right to ";
  out += padding.fixed ? std::to_string(*padding.fixed) : "the longest";
  if (padding.multiple > 1)
    out += accel::text(", rounded up to a multiple of {}", padding.multiple);
  return out + accel::text(", with {} {}; a recipe pads on the right and masks the padding",
                           padding.id, printable(padding.token));
}

ExitCode inspect_verb(const TokenizerArguments& arguments) {
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  std::cout << "tokens      " << tokenizer->vocab_size() << "\ndigest      " << tokenizer->digest()
            << '\n';
  const SpecialTokens& special = tokenizer->special();
  const std::pair<const char*, std::optional<int32_t>> roles[] = {
      {"pad", special.pad},   {"bos", special.bos}, {"eos", special.eos}, {"unk", special.unk},
      {"mask", special.mask}, {"cls", special.cls}, {"sep", special.sep}};
  for (const auto& [name, id] : roles) {
    const std::string padded = std::string(name).append(12 - std::string_view(name).size(), ' ');
    if (id) std::cout << padded << *id << "  " << printable(tokenizer->token(*id)) << '\n';
  }
  if (const auto truncation = tokenizer->truncation())
    std::cout << "truncation  " << truncation_text(*truncation) << '\n';
  if (const auto padding = tokenizer->padding())
    std::cout << "padding     " << padding_text(*padding) << '\n';
  return ExitCode::kDone;
}

void add_tokenizer_train(CLI::App& group, TokenizerArguments& to) {
  group.add_option("files", to.files, "text files to train on")->required();
  group
      .add_option("--model", to.model,
                  "bpe: byte-level BPE, as GPT-2; wordpiece: as BERT; default: bpe")
      ->check(CLI::IsMember({"bpe", "wordpiece"}));
  group.add_option("--vocab-size", to.vocab_size, "size of the vocabulary; default: 8000")
      ->check(CLI::Range(int64_t{1}, kMaxVocabSize));
  group
      .add_option("--fields", to.fields,
                  "train on the texts of these fields of JSON rows, at any depth, or columns of a "
                  "table, Parquet or Arrow file")
      ->delimiter(',');
  group.add_flag("--chatml", to.chatml, "bpe only: add ChatML's special tokens and chat template");
  group.add_flag("--cased", to.cased, "wordpiece only: keep case and accents");
  group.add_option("--out", to.out, "a folder that must not exist yet")->required();
}

void add_tokenizer_encode(CLI::App& encode, TokenizerArguments& to) {
  CLI::Option* text = encode.add_option_function<std::string>(
      "text",
      [&to](const std::string& given) {
        to.text = given;
        to.has_text = true;
      },
      "the text");
  CLI::Option* file = encode.add_option("--file", to.file, "a file to encode line by line");
  file->excludes(text);
  encode.add_flag("--json-lines", to.json_lines, "each line of the file is a JSON string");
  encode.add_flag("--plain", to.plain, "without special tokens");
  encode.add_flag("--tokens", to.tokens, "print tokens instead of ids");
}

}  // namespace

void add_tokenizer_verbs(VerbTable& verbs) {
  const auto to = std::make_shared<TokenizerArguments>();
  CLI::App& group = verbs.add_group("tokenizer", "train and inspect tokenizers");
  const auto add = [&](const char* name, const char* help,
                       ExitCode (*run)(const TokenizerArguments&)) -> CLI::App& {
    return verbs.add(group, name, help, [to, run] { return run(*to); });
  };
  const auto add_folder = [&](CLI::App& added) {
    added.add_option("tokenizer", to->tokenizer, "a tokenizer.json, or a folder with one")
        ->required();
  };
  add_tokenizer_train(add("train", "train a tokenizer on text files", train_verb), *to);
  CLI::App& encode = add("encode", "print the token ids of a text", encode_verb);
  CLI::App& decode = add("decode", "print the text of token ids", decode_verb);
  for (CLI::App* with_folder : {&encode, &decode}) add_folder(*with_folder);
  add_tokenizer_encode(encode, *to);
  decode.add_option("ids", to->ids, "ids")->required();
  decode.add_flag("--plain", to->plain, "skip special tokens");
  CLI::App& chat =
      add("chat", "print the tokens of conversations and the mask of answers", chat_verb);
  add_folder(chat);
  chat.add_option("file", to->file, "lines of JSON, each with 'messages'")->required();
  chat.add_option("--template", to->chat_template,
                  "a chat template instead of the tokenizer's own");
  chat.add_option("--date", to->date,
                  "date that the template's strftime_now writes, such as 2026-11-26; default: "
                  "strftime_now is not defined");
  add_folder(add("inspect", "print size, special tokens, truncation and padding", inspect_verb));
}

}  // namespace accel
