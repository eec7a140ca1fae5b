// What becomes of a word of Accelerate's: a key of its config file, a variable, a flag.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/node.h"

namespace accel {

/// A word of Accelerate's and what this program makes of it. In all but kDetail a value that is
/// empty or among `neutral` (words between blanks) says nothing.
struct ForeignWord {
  enum class Effect {
    kSets,       ///< the option `target` takes the value
    kTurnsOn,    ///< true is `target`, written "accelerator.device=cpu"
    kPrecision,  ///< as kSets; fp8 is refused
    kRefused,    ///< an error; `target` is the reason
    kIdle,       ///< a warning; `target` is the reason
    kDetail,     ///< says more of another word, and without that nothing
    kPlain,      ///< read by the caller
  };

  std::string_view name;
  Effect effect;
  std::string_view target = "";
  std::string_view neutral = "";
  std::string_view hint = "";
};

/// Values that mean off, for ForeignWord::neutral.
constexpr std::string_view kOffWords = "false no off none 0";

namespace reasons {
constexpr std::string_view kDevice = "accel-run computes on CPUs and NVIDIA's GPUs";
constexpr std::string_view kSplit = "accel-run does not split a model over ranks";
constexpr std::string_view kDeepSpeed = "DeepSpeed is a Python library";
constexpr std::string_view kMegatron = "Megatron-LM is a Python library";
constexpr std::string_view kTpu = "accel-run does not compute on TPUs";
constexpr std::string_view kCompile = "libtorch has no torch.compile";
constexpr std::string_view kFp8 = "this build has no fp8";
constexpr std::string_view kAffinity = "it binds a process to the cores beside its GPU";
constexpr std::string_view kSageMaker = "accel-run starts no jobs at Amazon SageMaker";
constexpr std::string_view kMpi = "accel-run does not start mpirun";
constexpr std::string_view kMpiHint = "start it under mpirun: mpirun -n 2 accel-run RECIPE";
constexpr std::string_view kRendezvous = "ranks meet at 'main_process_ip' and 'main_process_port'";
constexpr std::string_view kNoScript = "a recipe has no functions";
}  // namespace reasons

/// A layer of the recipe that is being put together from words.
class WordLayer {
 public:
  explicit WordLayer(Diagnostics& problems) : problems_(problems) {}

  /// Does what `word` says with its value. `shown` is how messages name the word with its value,
  /// such as "use_cpu: true".
  void apply(const ForeignWord& word, const Node& value, const std::string& shown);
  /// Gives the option `key`, as "accelerator.device", a value.
  void set(std::string_view key, Node value);
  void refuse(const Span& where, const std::string& shown, std::string_view reason,
              std::string_view hint = {});
  void warn(const Span& where, const std::string& message);

  /// The layer; texts in it hold no references.
  Node take() { return std::move(tree_); }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }
  Diagnostics& problems() { return problems_; }

 private:
  Diagnostics& problems_;
  Node tree_ = {Node::Map{}, {}};
  std::vector<std::string> warnings_;
};

const ForeignWord* find_word(std::span<const ForeignWord> words, std::string_view name);
/// For did_you_mean().
std::vector<std::string> names_of(std::span<const ForeignWord> words);

/// Whether the value says nothing: null, empty, or one of `neutral`, in any case.
bool says_nothing(const Node& value, std::string_view neutral);

/// What Python's YAML and Accelerate take for true or false. Null: neither; reported, with `shown`.
std::optional<bool> read_truth(const Node& value, const std::string& shown, Diagnostics& problems);

/// `name` with `value` behind `between` when that is a word, as the user wrote it: "use_cpu: true".
std::string shown_word(std::string_view name, std::string_view between, const Node& value);

}  // namespace accel
