#include "runner/cli/tokenizer_verbs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/utf8.h"
#include "data/chat_encoder.h"
#include "runner/formats/bytes.h"
#include "runner/formats/format_error.h"
#include "runner/formats/mapped_file.h"
#include "runner/tokenizers/tokenizer.h"
#include "runner/tokenizers/train.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct TokenizerArguments {
  std::vector<std::string> files;
  std::string model = "bpe";
  bool cased = false;
  int64_t vocab_size = 8000;
  std::string out;  ///< the folder to make

  std::string tokenizer;
  std::string text;
  bool has_text = false;
  std::string file;  ///< instead of the text
  std::vector<int32_t> ids;
  bool plain = false;         ///< without special tokens
  bool tokens = false;        ///< spelled, not as ids
  std::string chat_template;  ///< instead of the tokenizer's own
  bool json_lines = false;    ///< each line of the file is a JSON string
};

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw IoError("cannot write '" + path.string() + "'");
}

/// Makes the folder with both files; it is whole or not there.
void write_tokenizer(const fs::path& folder, const TrainedTokenizer& trained) {
  const fs::path partial = folder.string() + ".partial";
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) throw IoError("cannot make '" + partial.string() + "': " + error.message());
  write_file(partial / "tokenizer.json", trained.tokenizer);
  write_file(partial / "tokenizer_config.json", trained.config);
  fs::rename(partial, folder, error);
  if (error) throw IoError("cannot make '" + folder.string() + "': " + error.message());
}

[[noreturn]] void refuse_usage(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kRecipe, what, hint);
}

SharedBytes read_text(const std::string& file) {
  if (!fs::exists(file)) throw DataError("there is no file '" + file + "'", "check its name");
  return map_file(file);
}

ExitCode train_verb(const TokenizerArguments& arguments) {
  if (fs::exists(arguments.out)) {
    refuse_usage("'" + arguments.out + "' exists already",
                 "give another name; nothing is overwritten");
  }
  if (arguments.cased && arguments.model != "wordpiece") {
    refuse_usage("'--cased' is an option of --model wordpiece",
                 "leave it out: bpe keeps capitals and accents");
  }
  std::vector<SharedBytes> files;
  std::vector<std::string_view> texts;
  for (const std::string& file : arguments.files) {
    files.push_back(read_text(file));
    texts.push_back(as_text(files.back().view));
  }
  TrainingOptions options;
  options.wordpiece = arguments.model == "wordpiece";
  options.cased = arguments.cased;
  options.vocab_size = arguments.vocab_size;
  const TrainedTokenizer trained = train_tokenizer(texts, options);
  write_tokenizer(arguments.out, trained);
  std::cout << arguments.out << ": " << trained.vocab_size << " tokens";
  if (trained.vocab_size < arguments.vocab_size) {
    std::cout << ", fewer than " << arguments.vocab_size << ": nothing else occurs twice";
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

/// The text of a line that is one JSON string.
std::string json_string(std::string_view line, size_t number, const std::string& file) {
  const auto value = nlohmann::json::parse(line, nullptr, false);
  if (!value.is_string()) {
    throw DataError("'" + file + "': line " + std::to_string(number) + " is no JSON string",
                    "write each text in quotes, or leave out --json-lines");
  }
  return value.get<std::string>();
}

ExitCode encode_verb(const TokenizerArguments& arguments) {
  if (arguments.file.empty() && (!arguments.has_text || arguments.json_lines)) {
    refuse_usage(
        arguments.json_lines ? "'--json-lines' is about a file" : "there is nothing to encode",
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
    refuse_usage("there is no token " + std::to_string(id),
                 "ids are from 0 to " + std::to_string(tokenizer->vocab_size() - 1));
  }
  std::cout << tokenizer->decode(arguments.ids, arguments.plain) << '\n';
  return ExitCode::kDone;
}

/// What the dataset `chat` makes of each line.
ExitCode chat_verb(const TokenizerArguments& arguments) {
  const auto own = find_chat_template(arguments.tokenizer);
  if (arguments.chat_template.empty() && !own) {
    throw DataError("the tokenizer '" + arguments.tokenizer + "' has no chat template",
                    "name a file with --template");
  }
  const std::string source = arguments.chat_template.empty()
                                 ? *own
                                 : std::string(as_text(read_text(arguments.chat_template).view));
  const SharedBytes file = read_text(arguments.file);
  std::string_view rest = as_text(file.view);
  size_t number = 0;
  try {
    const ChatEncoder encoder(load_tokenizer(arguments.tokenizer), source, ChatAnswers::kAll);
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      ++number;
      const ChatTokens tokens = encoder.encode(read_chat_row(line));
      const nlohmann::ordered_json out = {{"ids", tokens.ids}, {"answers", tokens.answers}};
      std::cout << out.dump() << '\n';
    }
  } catch (const FormatError& error) {
    throw DataError(
        (number == 0 ? "the chat template" : arguments.file + ":" + std::to_string(number)) + ": " +
        error.what());
  }
  return ExitCode::kDone;
}

/// "to 512 tokens, of a pair the longer text first, at the end"
std::string cut_words(const TextCut& cut) {
  const char* share = cut.share == CutShare::kLongestFirst ? "of a pair the longer text first"
                      : cut.share == CutShare::kOnlyFirst  ? "of a pair the first text alone"
                                                           : "of a pair the second text alone";
  return "to " + std::to_string(cut.max_length) + " tokens, " + share + ", at the " +
         (cut.from_left ? "beginning" : "end") + "; a recipe's 'max_length' wins";
}

/// "on the right to the longest, with 0 [PAD]"
std::string fill_words(const TextFill& fill) {
  std::string out = fill.on_left ? "on the left to " : "on the right to ";
  out += fill.fixed ? std::to_string(*fill.fixed) : "the longest";
  if (fill.multiple > 1) out += ", rounded up to a multiple of " + std::to_string(fill.multiple);
  return out + ", with " + std::to_string(fill.id) + " " + printable(fill.token) +
         "; batches of a recipe are filled on the right, and what fills is masked";
}

ExitCode inspect_verb(const TokenizerArguments& arguments) {
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  std::cout << "tokens  " << tokenizer->vocab_size() << "\ndigest  " << tokenizer->digest() << '\n';
  const SpecialTokens& special = tokenizer->special();
  const std::pair<const char*, std::optional<int32_t>> roles[] = {
      {"pad", special.pad},   {"bos", special.bos}, {"eos", special.eos}, {"unk", special.unk},
      {"mask", special.mask}, {"cls", special.cls}, {"sep", special.sep}};
  for (const auto& [name, id] : roles) {
    const std::string padded = std::string(name).append(8 - std::string_view(name).size(), ' ');
    if (id) std::cout << padded << *id << "  " << printable(tokenizer->token(*id)) << '\n';
  }
  if (const auto cut = tokenizer->cut()) std::cout << "cut     " << cut_words(*cut) << '\n';
  if (const auto fill = tokenizer->fill()) std::cout << "fill    " << fill_words(*fill) << '\n';
  return ExitCode::kDone;
}

void add_tokenizer_train(CLI::App& group, TokenizerArguments& to) {
  group.add_option("files", to.files, "text files to learn from")->required();
  group
      .add_option("--model", to.model,
                  "bpe: pairs of bytes, as GPT-2's; wordpiece: as BERT's; default: bpe")
      ->check(CLI::IsMember({"bpe", "wordpiece"}));
  group.add_option("--vocab-size", to.vocab_size, "tokens to make; default: 8000")
      ->check(CLI::Range(int64_t{1}, kMostTokens));
  group.add_flag("--cased", to.cased, "of wordpiece: keep capitals and accents");
  group.add_option("--out", to.out, "a folder that is not there yet")->required();
}

void add_tokenizer_encode(CLI::App& encode, TokenizerArguments& to) {
  CLI::Option* text = encode.add_option_function<std::string>(
      "text",
      [&to](const std::string& given) {
        to.text = given;
        to.has_text = true;
      },
      "the text");
  CLI::Option* file = encode.add_option("--file", to.file, "a file: each of its lines");
  file->excludes(text);
  encode.add_flag("--json-lines", to.json_lines, "each line of the file is a JSON string");
  encode.add_flag("--plain", to.plain, "without the special tokens around it");
  encode.add_flag("--tokens", to.tokens, "spell the tokens");
}

}  // namespace

void add_tokenizer_verbs(CLI::App& app, std::function<ExitCode()>& verb) {
  const auto to = std::make_shared<TokenizerArguments>();
  CLI::App& group = *app.add_subcommand("tokenizer", "make tokenizers and look at them");
  group.require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       ExitCode (*run)(const TokenizerArguments&)) -> CLI::App& {
    CLI::App& added = *group.add_subcommand(name, help);
    added.callback([to, run, &verb] { verb = [to, run] { return run(*to); }; });
    return added;
  };
  const auto add_folder = [&](CLI::App& added) {
    added.add_option("tokenizer", to->tokenizer, "a tokenizer.json, or a folder with one")
        ->required();
  };
  add_tokenizer_train(add("train", "make one from text files", train_verb), *to);
  CLI::App& encode = add("encode", "tell the ids of a text", encode_verb);
  CLI::App& decode = add("decode", "tell the text of ids", decode_verb);
  for (CLI::App* with_folder : {&encode, &decode}) add_folder(*with_folder);
  add_tokenizer_encode(encode, *to);
  decode.add_option("ids", to->ids, "ids")->required();
  decode.add_flag("--plain", to->plain, "leave the special tokens out");
  CLI::App& chat =
      add("chat", "tell the tokens of conversations, and which are answers", chat_verb);
  add_folder(chat);
  chat.add_option("file", to->file, "lines of JSON, each with 'messages'")->required();
  chat.add_option("--template", to->chat_template,
                  "a chat template instead of the tokenizer's own");
  add_folder(add("inspect", "tell its size and special tokens", inspect_verb));
}

}  // namespace accel
