// chat: a conversation with a trained model in a terminal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"
#include "data/datasets/text/chat_source.h"
#include "infer/chat_session.h"
#include "runner/cli/cli.h"
#include "runner/cli/generation/generation_flags.h"
#include "runner/cli/generation/text_writer.h"
#include "runner/cli/weight_type_flags.h"
#include "runner/placement/weight_placement.h"
#include "text/tokenizer.h"

namespace accel {
namespace {

constexpr int64_t kAnswerTokens = 1024;

constexpr const char* kCommands =
    "/system TEXT  set the system message and begin a new conversation\n"
    "/reset        begin a new conversation\n"
    "/exit         end, as the end of the input does\n";

struct ChatArguments {
  std::string source;  ///< a run folder, a checkpoint or a Hugging Face folder
  std::string tokenizer, chat_template, system;
  std::string cache_dtype;  ///< "": that of the model
  GenerationFlags generation;
  PlacementFlags placement;
  WeightTypeFlags types;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  char out[32];
  std::strftime(out, sizeof out, "%Y-%m-%d %H:%M", std::localtime(&now));
  return out;
}

ChatSession session_of(const ChatArguments& arguments, const TextWriter& writer) {
  if (writer.tokenizer.empty()) {
    throw Error(
        ExitCode::kRecipe,
        text("the model of '{}' has no tokenizer, and so no chat template", arguments.source),
        "name one with --tokenizer, or use 'generate'");
  }
  const std::string own =
      arguments.chat_template.empty() ? writer.chat_template : arguments.chat_template;
  const std::string source = chat_template_source(own, writer.tokenizer);
  return {load_tokenizer(writer.tokenizer),
          parse_chat_template(source, own, writer.tokenizer, today())};
}

class Chat {
 public:
  Chat(const ChatArguments& arguments, const TextWriter& writer)
      : session_(session_of(arguments, writer)),
        texts_(*writer.texts),
        is_terminal_(::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
    session_.set_system(arguments.system);
    request_.config = apply_generation_flags(writer.config, arguments.generation);
    print_generation_config(request_.config, arguments.generation, writer.config_file);
    request_.default_new_tokens = kAnswerTokens;
    request_.seed = arguments.generation.seed;
    apply_cache_flag(arguments.cache_dtype, texts_, request_);
    texts_.add_ends(request_.config);
    if (const auto end = session_.end_of_turn()) request_.config.eos_token_id.insert(*end);
  }

  ExitCode run() {
    if (is_terminal_) std::cout << kCommands;
    std::string line;
    while (prompt(line)) {
      if (line == "/exit") break;
      if (line.starts_with('/')) {
        command(line);
      } else if (!line.empty()) {
        answer(line);
      }
    }
    return ExitCode::kDone;
  }

 private:
  bool prompt(std::string& line) {
    if (is_terminal_) std::cout << "> " << std::flush;
    if (std::getline(std::cin, line)) {
      if (line.ends_with('\r')) line.pop_back();
      return true;
    }
    if (is_terminal_) std::cout << '\n';
    return false;
  }

  void command(const std::string& line) {
    const std::string name = line.substr(0, line.find(' '));
    if (name == "/system") {
      session_.set_system(line.size() > name.size() ? line.substr(name.size() + 1) : "");
      session_.reset();
    } else if (line == "/reset") {
      session_.reset();
    } else {
      std::cerr << "there is no command '" << name << "'; commands are:\n" << kCommands;
    }
  }

  void answer(const std::string& line) {
    const std::vector<int64_t> tokens = session_.add_user_message(line);
    const int64_t context = texts_.context();
    if (context > 0 && static_cast<int64_t>(tokens.size()) > context) {
      warn(text("the conversation has {} tokens; the model reads the last {}", tokens.size(),
                context));
    }
    ++request_.first_stream;  // the same question gets another answer
    texts_.generate(
        std::vector<std::vector<int64_t>>{tokens}, request_,
        {.piece = [](size_t, const std::string& piece) { std::cout << piece << std::flush; },
         .done =
             [&](size_t, Completion&& completion) {
               session_.add_assistant_message(completion.text);
             }});
    std::cout << '\n' << std::flush;
  }

  ChatSession session_;
  const ModelTexts& texts_;
  bool is_terminal_;
  GenerationRequest request_;
};

ExitCode chat_verb(const ChatArguments& arguments) {
  PlacementRequest placement = placement_request(arguments.placement);
  const WeightTypes types = weight_types(arguments.types, arguments.placement);
  const at::Device device = choose_inference_device(placement);
  const TextWriter writer = load_text_writer(
      arguments.source,
      {.tokenizer = arguments.tokenizer, .types = types, .defers = !placement.offload.empty()});
  const auto placed = PlacedWeights::place(*writer.model, placement, device);
  return Chat(arguments, writer).run();
}

}  // namespace

void add_chat_verb(VerbTable& verbs) {
  const auto to = std::make_shared<ChatArguments>();
  CLI::App& verb = verbs.add("chat", "talk to a model in a terminal, by its chat template",
                             verbs.with_torch([to] { return chat_verb(*to); }));
  verb.add_option("source", to->source,
                  "a run folder, a checkpoint, or a model's Hugging Face folder")
      ->required();
  verb.add_option("--system", to->system, "the system message");
  verb.add_option("--tokenizer", to->tokenizer,
                  "a tokenizer.json, or the folder with one, where the source has none");
  verb.add_option("--chat-template", to->chat_template,
                  "a file with a chat template, instead of the tokenizer's");
  add_placement_flags(verb, to->placement);
  add_generation_flags(verb, to->generation);
  add_cache_flag(verb, to->cache_dtype);
  add_weight_type_flags(verb, to->types);
}

}  // namespace accel
