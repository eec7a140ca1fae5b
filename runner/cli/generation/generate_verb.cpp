// generate: text from a trained model.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/cli/generation/generation_flags.h"
#include "runner/cli/generation/text_writer.h"
#include "runner/cli/mesh_model.h"
#include "runner/cli/weight_type_flags.h"
#include "runner/placement/weight_placement.h"
#include "train/job/data_ranks.h"
#include "train/loop/evaluate.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct GenerateArguments {
  std::string source;                ///< a run folder, a checkpoint or a Hugging Face folder
  std::string tokenizer;             ///< instead of the tokenizer of the source
  std::vector<std::string> prompts;  ///< followed by the lines of the file
  std::string prompt_file;           ///< "-": standard input; "": none
  GenerationFlags generation;
  std::string cache_dtype;  ///< "": that of the model
  int64_t batch_size = 8;
  int64_t prefill_chunk = 512;
  bool json = false;
  MeshArguments mesh;
  PlacementFlags placement;
  WeightTypeFlags types;
};

void add_lines(std::istream& in, std::vector<std::string>& prompts) {
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    prompts.push_back(line);
  }
}

std::vector<std::string> prompts_of(const GenerateArguments& arguments) {
  std::vector<std::string> prompts = arguments.prompts;
  if (arguments.prompt_file == "-") {
    add_lines(std::cin, prompts);
  } else if (!arguments.prompt_file.empty()) {
    std::ifstream in(arguments.prompt_file);
    if (!in || fs::is_directory(arguments.prompt_file)) {
      throw DataError(text("cannot read the prompts of '{}'", arguments.prompt_file),
                      "check its name");
    }
    add_lines(in, prompts);
  }
  if (prompts.empty()) {
    throw Error(ExitCode::kRecipe, "there is no prompt",
                "give one with --prompt, or --prompt-file with a file");
  }
  return prompts;
}

const char* name_of(GenerationEnd end) {
  return end == GenerationEnd::kLength ? "length" : end == GenerationEnd::kToken ? "token" : "stop";
}

std::string json_line(const std::string& prompt, const Completion& completion) {
  const nlohmann::ordered_json line = {{"prompt", prompt},
                                       {"text", completion.text},
                                       {"tokens", completion.tokens.size()},
                                       {"end", name_of(completion.end)},
                                       {"token_ids", completion.tokens}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

/// Prints texts in the order of their prompts: that of the first unfinished prompt as its tokens
/// come, others when it is their turn.
class OrderedOutput {
 public:
  /// `shown`: whether texts follow their prompts.
  OrderedOutput(const std::vector<std::string>& prompts, bool shown, bool json)
      : prompts_(prompts),
        shown_(shown && !json),
        json_(json),
        texts_(prompts.size()),
        is_done_(prompts.size()) {
    begin();
  }

  TextReceiver receiver() {
    return {.piece = [this](size_t i, const std::string& piece) { add(i, json_ ? "" : piece); },
            .done = [this](size_t i, Completion&& completion) { finish(i, completion); }};
  }

 private:
  /// Prints what there is of the first unfinished prompt.
  void begin() {
    if (next_ == prompts_.size()) return;
    std::cout << (shown_ ? prompts_[next_] : "") << texts_[next_] << std::flush;
    texts_[next_].clear();
  }

  void add(size_t i, const std::string& text) {
    if (i == next_) {
      std::cout << text << std::flush;
    } else {
      texts_[i] += text;
    }
  }

  void finish(size_t i, const Completion& completion) {
    add(i, json_ ? json_line(prompts_[i], completion) : "\n");
    is_done_[i] = true;
    while (next_ < prompts_.size() && is_done_[next_]) {
      ++next_;
      begin();
    }
  }

  const std::vector<std::string>& prompts_;
  bool shown_, json_;
  std::vector<std::string> texts_;  ///< that are not printed
  std::vector<bool> is_done_;
  size_t next_ = 0;
};

GenerationRequest request_of(const GenerateArguments& arguments, GenerationConfig config,
                             const ModelTexts& texts) {
  GenerationRequest out = {.config = std::move(config),
                           .seed = arguments.generation.seed,
                           .batch_size = arguments.batch_size,
                           .prefill_chunk = arguments.prefill_chunk};
  apply_cache_flag(arguments.cache_dtype, texts, out);
  return out;
}

ExitCode generate_on_mesh(const GenerateArguments& arguments, RankSession& session) {
  refuse_placement_on_mesh(arguments.placement);
  refuse_weight_types_on_mesh(arguments.types);
  if (arguments.prompt_file == "-") {
    throw Error(ExitCode::kRecipe, "'--mesh' does not support standard input as '--prompt-file'",
                "give it a file, which every rank reads");
  }
  const std::vector<std::string> prompts = prompts_of(arguments);
  const GenerationConfig config = apply_generation_flags(config_of_runs(), arguments.generation);
  const MeshModel loaded = load_mesh_model(arguments.source, arguments.mesh, session);
  Job& job = *loaded.job;
  require_texts(*job.model, arguments.source);
  const auto texts =
      checkpoint_texts(*job.model, loaded.trained, arguments.tokenizer, staged_forward(job));
  // Texts differ in length: ranks whose passes communicate generate the same ones.
  const DataRanks ranks = data_ranks_communicate_in_passes(job) ? DataRanks() : data_ranks(job);
  const auto step = static_cast<size_t>(ranks.world);
  const auto line_of = [&](size_t i) {
    GenerationRequest request = request_of(arguments, config, *texts);
    request.on_cache = {};  // per prompt and rank
    request.first_stream = i;
    std::string line;
    const auto done = [&](size_t, Completion&& completion) {
      const std::string before = texts->continues_prompts() ? prompts[i] : "";
      line = arguments.json ? json_line(prompts[i], completion) : before + completion.text + '\n';
    };
    texts->generate(std::vector<std::string>{prompts[i]}, std::move(request), {.done = done});
    return line;
  };
  with_evaluated_weights(job, [&] {
    for (size_t first = 0; first < prompts.size(); first += step) {
      const size_t i = first + static_cast<size_t>(ranks.rank);
      const std::string own = i < prompts.size() ? line_of(i) : std::string();
      for (const std::string& line : ranks.gather(own)) {
        if (job.is_main) std::cout << line << std::flush;
      }
    }
  });
  return ExitCode::kDone;
}

ExitCode generate_verb(const GenerateArguments& arguments) {
  PlacementRequest placement = placement_request(arguments.placement);
  const WeightTypes types = weight_types(arguments.types, arguments.placement);
  const at::Device device = choose_inference_device(placement);
  const std::vector<std::string> prompts = prompts_of(arguments);
  const TextWriter writer = load_text_writer(
      arguments.source,
      {.tokenizer = arguments.tokenizer, .types = types, .defers = !placement.offload.empty()});
  GenerationConfig config = apply_generation_flags(writer.config, arguments.generation);
  for (const std::string& prompt : prompts) writer.texts->check_prompt(prompt);
  print_generation_config(config, arguments.generation, writer.config_file);
  GenerationRequest request = request_of(arguments, std::move(config), *writer.texts);
  const auto placed = PlacedWeights::place(*writer.model, placement, device);
  OrderedOutput output(prompts, writer.texts->continues_prompts(), arguments.json);
  writer.texts->generate(prompts, std::move(request), output.receiver());
  if (placed) placed->report();
  return ExitCode::kDone;
}

}  // namespace

void add_generate_verb(VerbTable& verbs) {
  const auto to = std::make_shared<GenerateArguments>();
  CLI::App& verb = verbs.add("generate", "generate text from a prompt",
                             on_mesh(verbs, to, &generate_verb, &generate_on_mesh));
  verb.add_option("source", to->source,
                  "a run folder, a checkpoint, or a model's Hugging Face folder")
      ->required();
  add_mesh(verb, to->mesh);
  add_placement_flags(verb, to->placement);
  add_weight_type_flags(verb, to->types);
  add_repeated(verb, "--prompt", to->prompts, "the prompt; may be repeated");
  verb.add_option("--prompt-file", to->prompt_file,
                  "a file with one prompt per line; '-': standard input");
  verb.add_option("--tokenizer", to->tokenizer,
                  "a tokenizer.json, or the folder with one, where the source has none");
  add_generation_flags(verb, to->generation);
  add_cache_flag(verb, to->cache_dtype);
  verb.add_option("--batch-size", to->batch_size,
                  "prompts continued at once: more is faster and needs memory for their key-value "
                  "caches; default: 8")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000}));
  verb.add_option("--prefill-chunk", to->prefill_chunk,
                  "tokens of a prompt per forward pass: fewer need less memory for activations; "
                  "default: 512")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  verb.add_flag("--json", to->json, "print one JSON object per prompt");
}

}  // namespace accel
