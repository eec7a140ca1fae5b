// Conversion of Accelerate's config keys, environment variables and flags to recipe options.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compat/sharding/sharding_keys.h"
#include "core/recipe/diagnostic.h"
#include "core/recipe/node.h"

namespace accel {

/// A key of Accelerate and its effect. A value that is empty or in `neutral` (words between spaces)
/// has none.
struct CompatKey {
  enum class Effect {
    kSets,       ///< sets the option `target` to the value
    kTurnsOn,    ///< true sets `target`, such as "accelerator.device=cpu"
    kPrecision,  ///< as kSets, in lower case
    kRefused,    ///< an error; `target` is the reason
    kIdle,       ///< a warning; `target` is the reason
    kDetail,     ///< ignored: a detail of another key
    kPlain,      ///< read by the caller
  };

  std::string_view name;
  Effect effect;
  std::string_view target = "";
  std::string_view neutral = "";
  std::string_view hint = "";
};

/// Spellings of off, for CompatKey::neutral.
constexpr std::string_view kOff = "false no off none 0";

namespace reasons {
constexpr std::string_view kDevice = "accel-run supports CPUs and NVIDIA GPUs";
constexpr std::string_view kAffinity = "accel-run does not bind processes to the cores of a GPU";
constexpr std::string_view kSageMaker = "it is of a job on Amazon SageMaker";
constexpr std::string_view kMpi = "accel-run does not start mpirun";
constexpr std::string_view kMpiHint = "start accel-run with it: mpirun -n 2 accel-run RECIPE";
constexpr std::string_view kRendezvous =
    "the rendezvous is at 'main_process_ip' and 'main_process_port'";
constexpr std::string_view kNoScript = "a recipe has no functions";
}  // namespace reasons

/// Builds a recipe layer from keys of Accelerate.
class CompatLayer {
 public:
  explicit CompatLayer(Diagnostics& problems) : problems_(problems) {}

  /// Applies a key. `shown` is the key with its value for messages, such as "use_cpu: true".
  void apply(const CompatKey& key, const Node& value, const std::string& shown);
  /// Sets the option `key`, such as "accelerator.fsdp.stage".
  void set(std::string_view key, Node value);
  /// The value of the option in this layer, or null.
  const Node* find(std::string_view key) const;
  void refuse(const Span& where, const std::string& shown, std::string_view reason,
              std::string_view hint = {});
  void warn(const Span& where, const std::string& message);
  /// Removes the address of machine 0 with a warning if there is one machine.
  void drop_lone_address();

  /// The layer; its texts have no references.
  Node take() { return std::move(tree_); }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }
  Diagnostics& problems() { return problems_; }

 private:
  Diagnostics& problems_;
  Node tree_ = {Node::Map{}, {}};
  std::vector<std::string> warnings_;
};

const CompatKey* find_compat_key(std::span<const CompatKey> words, std::string_view name);
/// For did_you_mean().
std::vector<std::string> key_names(std::span<const CompatKey> words);

/// Whether `word` is one of `words`, which are separated by spaces.
bool has_word(std::string_view words, const std::string& word);

/// Whether the value is null, empty, or in `neutral` in any case.
bool is_neutral(const Node& value, std::string_view neutral);

/// A boolean in the spellings of PyYAML and Accelerate. Null after an error that names `shown`.
std::optional<bool> read_bool(const Node& value, const std::string& shown, Diagnostics& problems);

/// A key with its scalar value as written: "use_cpu: true".
std::string key_with_value(std::string_view name, std::string_view between, const Node& value);

/// Names and values, prefixes included.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// The variables ACCELERATE_*, FSDP_*, PARALLELISM_CONFIG_* and MEGATRON_LM_* of this process,
/// sorted by name.
Variables accelerate_variables();

struct EnvironmentLayer {
  Node tree = {Node::Map{}, {}};
  std::vector<std::string> warnings;  ///< variables without effect
};

/// The variables as the lowest layer. An enabled unsupported variable is an error.
EnvironmentLayer environment_layer(const Variables& variables, Diagnostics& problems);

}  // namespace accel
