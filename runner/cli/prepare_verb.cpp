// prepare: a corpus of texts as token shards. It does not need libtorch.
#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/progress_text.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "data/corpus/corpus.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct PrepareArguments {
  std::vector<std::string> paths;
  std::string tokenizer;
  std::string out;
  std::string field = "text";
  std::string shard_size = "256 MiB";
  std::string part;
  std::string on_bad_sample = "stop";
  uint64_t seed = 0;
  bool no_shuffle = false;
  bool no_eos = false;
  bool bos = false;
};

[[noreturn]] void refuse_arguments(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

std::optional<int64_t> number_in(const std::string& word) {
  const auto number = parse_number({word}).value;
  const bool whole = number && *number == std::floor(*number) && *number >= 0 && *number < 1e9;
  return whole ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
}

int64_t variable(const char* name) {
  const auto value = environment_variable(name);
  const auto number = value ? number_in(*value) : std::nullopt;
  if (!number) refuse_arguments(text("'{}' is not a number", name), "give --part I/N");
  return *number;
}

/// The part of the task of an array job: of Slurm, AWS Batch, or an indexed Job of Kubernetes,
/// whose number of tasks is not in the environment.
CorpusPart part_of_task(std::optional<int64_t> count) {
  const auto has = [](const char* name) { return environment_variable(name).has_value(); };
  if (has("SLURM_ARRAY_TASK_ID")) {
    const int64_t first = has("SLURM_ARRAY_TASK_MIN") ? variable("SLURM_ARRAY_TASK_MIN") : 0;
    return {variable("SLURM_ARRAY_TASK_ID") - first,
            count ? *count : variable("SLURM_ARRAY_TASK_COUNT")};
  }
  if (has("AWS_BATCH_JOB_ARRAY_INDEX")) {
    return {variable("AWS_BATCH_JOB_ARRAY_INDEX"),
            count ? *count : variable("AWS_BATCH_JOB_ARRAY_SIZE")};
  }
  if (!has("JOB_COMPLETION_INDEX")) {
    refuse_arguments("'--part auto' is for tasks of an array job, and this is none",
                     "give --part I/N, or start it as an array of Slurm, AWS Batch or Kubernetes");
  }
  if (!count) {
    refuse_arguments("an indexed Job of Kubernetes does not say how many tasks it has",
                     "give --part auto/N, N as the Job's 'completions'");
  }
  return {variable("JOB_COMPLETION_INDEX"), *count};
}

CorpusPart part_in(const std::string& word) {
  if (word.empty()) return {};
  const size_t slash = word.find('/');
  const std::string index = word.substr(0, slash);
  const auto count = slash == word.npos ? std::nullopt : number_in(word.substr(slash + 1));
  const bool is_auto = index == "auto";
  const auto number = is_auto ? std::nullopt : number_in(index);
  const bool known = is_auto ? slash == word.npos || count.has_value() : number && count;
  if (!known) {
    refuse_arguments(text("'--part' is '{}', not I/N, auto or auto/N", word),
                     "I counts from 0: the four parts of a corpus are 0/4 to 3/4");
  }
  const CorpusPart part = is_auto ? part_of_task(count) : CorpusPart{*number, *count};
  if (part.index < 0 || part.index >= part.count) {
    refuse_arguments(text("there is no part {} of {}", part.index, part.count),
                     text("parts are from 0 to {}", part.count - 1));
  }
  return part;
}

OnBadSample on_bad_sample_in(const std::string& word) {
  Diagnostics problems;
  const Registry registry;
  Reading reading{problems, registry};
  const auto value = Codec<OnBadSample>::read(scalar_node(word), "--on-bad-sample", reading);
  problems.check();
  return *value;
}

CorpusOptions options_of(const PrepareArguments& arguments) {
  CorpusOptions out;
  out.files = corpus_files(arguments.paths);
  out.field = arguments.field;
  out.tokenizer = arguments.tokenizer;
  out.append_eos = !arguments.no_eos;
  out.prepend_bos = arguments.bos;
  out.shuffle = !arguments.no_shuffle;
  out.seed = arguments.seed;
  out.shard_bytes = static_cast<int64_t>(shard_bytes(arguments.shard_size, "--shard-size"));
  out.on_bad_sample = on_bad_sample_in(arguments.on_bad_sample);
  out.part = part_in(arguments.part);
  return out;
}

/// Whether the folder has the shards that would be written. Throws Error (kRecipe) for another
/// content.
bool is_prepared(const std::string& folder, const CorpusOptions& options) {
  if (!fs::exists(folder)) return false;
  if (fs::exists(fs::path(folder) / kShardsIndex)) {
    const ShardsIndex found = read_shards_index(folder);
    if (found.identity == corpus_identity(options) && found.part.index == options.part.index) {
      return true;
    }
  }
  refuse_arguments(text("'{}' already exists", folder),
                   "give another name; a corpus is never overwritten");
}

void print_result(const std::string& folder, const ShardsIndex& index) {
  std::cout << folder << ": " << grouped_digits(index.documents) << " documents, "
            << grouped_digits(index.tokens()) << " tokens (" << token_type_name(index.width)
            << ", vocabulary of " << grouped_digits(index.vocab_size) << ") in "
            << index.shards.size() << (index.shards.size() == 1 ? " shard" : " shards") << '\n';
  if (index.empty_documents > 0) {
    std::cout << grouped_digits(index.empty_documents) << " empty documents are left out\n";
  }
}

/// Writes the folder atomically; what a failure leaves is removed.
ShardsIndex write_corpus(const CorpusOptions& options, const std::string& folder) {
  DiskFiles files;
  const std::string partial = folder + ".partial";
  try {
    files.remove_tree(partial);
    files.make_dirs(partial);
    ShardsIndex index = prepare_corpus(files, options, partial);
    publish_file(partial, folder);
    return index;
  } catch (const std::exception& failure) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    const auto* unwritten = dynamic_cast<const FileError*>(&failure);
    if (!unwritten) throw;
    throw IoError(unwritten->what(), full_disk_hint(unwritten->code().value()));
  }
}

ExitCode prepare(const PrepareArguments& arguments) {
  const CorpusOptions options = options_of(arguments);
  const bool divided = options.part.count > 1;
  if (divided && fs::exists(fs::path(arguments.out) / kShardsIndex)) {
    refuse_arguments(text("'{}' already is a corpus without parts", arguments.out),
                     "give another name");
  }
  const std::string target = divided ? arguments.out + "/" + options.part.folder() : arguments.out;
  if (is_prepared(target, options)) {
    print_result(target, read_shards_index(target));
    std::cout << "nothing was done: these shards are of the same files and options\n";
    return ExitCode::kDone;
  }
  print_result(target, write_corpus(options, target));
  std::cout << "to train on it: data.train={type: tokens, path: " << arguments.out
            << ", max_seq_len: 1024}\n";
  return ExitCode::kDone;
}

}  // namespace

void add_prepare_verb(VerbTable& verbs) {
  const auto to = std::make_shared<PrepareArguments>();
  CLI::App& verb = verbs.add("prepare", "tokenize, shuffle and shard a corpus of texts",
                             [to] { return prepare(*to); });
  verb.add_option("paths", to->paths,
                  "files of rows (JSON Lines, Parquet, Arrow, CSV) or of lines (.txt), a document "
                  "each, or folders of them")
      ->required();
  verb.add_option("--tokenizer", to->tokenizer,
                  "a tokenizer.json, the folder that holds it, or SentencePiece's .model")
      ->required();
  verb.add_option("--out", to->out, "the folder to create")->required();
  verb.add_option("--field", to->field, "field of the text; default: text");
  verb.add_option("--seed", to->seed, "seed of the order of documents; default: 0");
  verb.add_flag("--no-shuffle", to->no_shuffle, "documents keep their order");
  verb.add_flag("--no-eos", to->no_eos, "without the tokenizer's end token after each document");
  verb.add_flag("--bos", to->bos, "with the tokenizer's first token before each document");
  verb.add_option("--shard-size", to->shard_size,
                  "size of a file, such as '64 MiB'; default: 256 MiB");
  verb.add_option("--part", to->part,
                  "prepare part I of N alone, I from 0: '3/16'; auto: by the task of an array job "
                  "of Slurm or AWS Batch; auto/N: also of a Job of Kubernetes");
  verb.add_option("--on-bad-sample", to->on_bad_sample,
                  "stop, or the most documents to skip, such as 'skip(10)'; default: stop");
}

}  // namespace accel
