#include "compat/accelerate/compat_fp8.h"

#include <algorithm>
#include <array>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr std::string_view kFp8OptionPrefix = "fp8_";
constexpr std::string_view kAcceleratesOptLevel = "o2";  // its default, which it always passes
constexpr std::array kProducts = {"fprop", "dgrad", "wgrad"};

constexpr Fp8Option kOptions[] = {
    {"backend", "accelerator.fp8.recipe"},
    {"use_autocast_during_eval", "accelerator.fp8.use_autocast_during_eval", true},
    {"margin", "accelerator.fp8.margin"},
    {"interval", "accelerator.fp8.interval"},
    {"format", "accelerator.fp8.format"},
    {"amax_history_len", "accelerator.fp8.amax_history_len"},
    {"amax_compute_algo", "accelerator.fp8.amax_compute_algo"},
    {"override_linear_precision", "accelerator.fp8.override_linear_precision"},
    {"pad_inner_dim", "accelerator.fp8.pad_inner_dim"},
    {"opt_level", ""},
    {"enable_fsdp_float8_all_gather", ""},
    {"use_mxfp8_block_scaling", ""},
    {"override_fprop", ""},
    {"override_dgrad", ""},
    {"override_wgrad", ""},
};

/// Names that `accelerate config` writes and `accelerate launch` does not read.
constexpr std::pair<std::string_view, std::string_view> kWritten[] = {
    {"amax_history_length", "amax_history_len"},
    {"amax_compute_algorithm", "amax_compute_algo"},
    {"optimization_level", "opt_level"}};

std::string lower_text(const Node& value) {
  return value.scalar() ? ascii_lower(value.scalar()->text) : "";
}

Node lower_case(Node value) {
  if (value.scalar()) value.scalar()->text = lower_text(value);
  return value;
}

/// The texts of "true,false,false", or the items of a list.
std::vector<Node> items_of(const Node& value) {
  if (value.list()) return *value.list();
  std::vector<Node> out;
  if (!value.scalar()) return out;
  const std::string& all = value.scalar()->text;
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find(',', begin), all.size());
    out.push_back(scalar_node(all.substr(begin, end - begin), false, value.where));
    begin = end + 1;
  }
  return out;
}

}  // namespace

std::span<const Fp8Option> fp8_options() {
  return kOptions;
}

const Fp8Option* find_fp8_option(std::string_view name) {
  if (name.starts_with(kFp8OptionPrefix)) name.remove_prefix(kFp8OptionPrefix.size());
  for (const auto& [written, meant] : kWritten) {
    if (name == written) name = meant;
  }
  const auto found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                  [&](const Fp8Option& option) { return option.name == name; });
  return found == std::end(kOptions) ? nullptr : &*found;
}

void CompatFp8::add(const Fp8Option& option, const Node& value, const std::string& shown) {
  if (is_neutral(value, {})) return;
  const std::string_view name = option.name;
  if (name == "backend") return set_backend(value, shown);
  if (name == "format") return set_format(value, shown);
  if (name == "override_linear_precision") return set_override(value, shown);
  if (name.starts_with("override_")) {
    return add_override(kProducts[static_cast<size_t>(&option - find_fp8_option("override_fprop"))],
                        value, shown);
  }
  if (name == "opt_level") {
    if (lower_text(value) == kAcceleratesOptLevel) return;
    return layer_.warn(value.where, text("'{}' has no effect: it is an option of MS-AMP", shown));
  }
  const bool is_choice = !option.target.empty() && !option.is_switch;
  if (is_choice) return layer_.set(option.target, lower_case(value));
  // Off is the default of all others; torchao has no such option for evaluations.
  if (!read_bool(value, shown, layer_.problems()).value_or(false)) return;
  if (option.is_switch) return layer_.set(option.target, scalar_node("true", false, value.where));
  if (name == "use_mxfp8_block_scaling") {
    layer_.refuse(value.where, shown, "MXFP8 blocks need a GPU of compute capability 10",
                  "leave it out");
    return;
  }
  gather_ = value.where;
  gather_text_ = shown;
}

/// torchao's gather in fp8; it is on by default in Accelerate, and without FSDP has no effect.
void CompatFp8::set_gather() {
  const Node* stage = layer_.find("accelerator.fsdp.stage");
  const Node* recipe = layer_.find("accelerator.fp8.recipe");
  const auto is = [](const Node* node, const char* text) {
    return node && node->scalar() && node->scalar()->text == text;
  };
  if (!stage || is(stage, "0")) {
    layer_.warn(gather_, text("'{}' has no effect without FSDP", gather_text_));
  } else if (is(recipe, "delayed")) {
    layer_.warn(gather_, text("'{}' has no effect: it is an option of AO", gather_text_));
  } else {
    layer_.set("accelerator.fp8.all_gather", scalar_node("true", false, gather_));
  }
}

/// Accelerate's backends differ in their scales, and in the layers: Transformer Engine's takes the
/// first and the last one too.
void CompatFp8::set_backend(const Node& value, const std::string& shown) {
  const std::string backend = lower_text(value);
  const auto word = [&](const char* text) { return scalar_node(text, false, value.where); };
  if (backend == "ao" || backend == "auto") {
    layer_.set("accelerator.fp8.recipe", word("tensorwise"));
  } else if (backend == "te") {
    layer_.set("accelerator.fp8.recipe", word("delayed"));
    layer_.set("accelerator.fp8.filter", {Node::List{}, value.where});
  } else if (backend == "msamp") {
    layer_.refuse(value.where, shown,
                  "MS-AMP keeps weights and optimizer state in fp8, which accel-run does not",
                  "use AO or TE");
  } else if (!is_neutral(value, kOff)) {
    layer_.problems().error(value.where,
                            text("'{}' is no backend of fp8: AO, TE and MSAMP are", shown),
                            "use AO or TE");
  }
}

void CompatFp8::set_format(const Node& value, const std::string& shown) {
  if (lower_text(value) != "e5m2") {
    return layer_.set("accelerator.fp8.format", lower_case(value));
  }
  layer_.refuse(value.where, shown, "at::_scaled_mm does not multiply two matrices of e5m2",
                "use HYBRID or E4M3");
}

void CompatFp8::set_override(const Node& value, const std::string& shown) {
  const std::vector<Node> items = items_of(value);
  if (items.size() != kProducts.size()) {
    layer_.problems().error(
        value.where, text("'{}' wants three of true and false, for fprop, dgrad and wgrad", shown));
    return;
  }
  for (size_t i = 0; i < items.size(); ++i) add_override(kProducts[i], items[i], shown);
}

void CompatFp8::add_override(const char* product, const Node& value, const std::string& shown) {
  if (!read_bool(value, shown, layer_.problems()).value_or(false)) return;
  overrides_.push_back(scalar_node(product, false, value.where));
  where_ = value.where;
}

void CompatFp8::finish() {
  if (!gather_text_.empty()) set_gather();
  if (overrides_.empty()) return;
  layer_.set("accelerator.fp8.override_linear_precision", {std::move(overrides_), where_});
}

}  // namespace accel
