#include "compat/accelerate/sharding_layer.h"

#include <algorithm>
#include <utility>

#include "compat/accelerate/parse_config.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Place = ShardingLayer::Place;

/// Writes options to the layer. Options without effect for one reason are one warning.
class LayerSink final : public ShardingSink {
 public:
  explicit LayerSink(CompatLayer& layer, std::vector<std::string>& remarks)
      : layer_(layer), remarks_(remarks) {}
  ~LayerSink() override {
    for (const Unused& each : unused_) {
      layer_.warn(each.where, each.several ? text("{} have no effect: {}", each.names, each.reason)
                                           : text("{} has no effect: {}", each.names, each.reason));
    }
  }
  LayerSink(const LayerSink&) = delete;
  LayerSink& operator=(const LayerSink&) = delete;

  void set(const ShardingOption& option, const std::string& target, Node value) override {
    const Node* old = layer_.find(target);
    const auto before = set_by_.find(target);
    const bool weak = target == "accelerator.mixed_precision" && old && is_neutral(*old, kOff);
    if (old && !weak && detail::inline_text(*old) != detail::inline_text(value)) {
      const std::string other = before == set_by_.end()
                                    ? text("{}: {}", target, detail::inline_text(*old))
                                    : before->second;
      layer_.problems().error(option.value.where,
                              text("'{}' and '{}' contradict each other", option.shown, other),
                              "keep one of the two");
      return;
    }
    set_by_[target] = option.shown;
    layer_.set(target, std::move(value));
  }

  void keep_same(const ShardingOption&) override {}

  void have_no_effect(const ShardingOption& option, const std::string& reason) override {
    const Span& where = option.value.scalar() ? option.value.where : option.where;
    const auto same = [&](const Unused& each) {
      return each.reason == reason && each.where.source && where.source &&
             each.where.source->kind == Source::Kind::kFile && each.where.source == where.source;
    };
    const auto found = std::find_if(unused_.begin(), unused_.end(), same);
    if (found == unused_.end()) {
      unused_.push_back({where, single_quoted(option.shown), reason});
    } else {
      found->names += text(", '{}' (line {})", option.shown, where.line);
      found->several = true;
    }
  }

  void refuse(const ShardingOption& option, const std::string& reason,
              const std::string& hint) override {
    layer_.refuse(place_of(option), option.shown, reason, hint);
  }

  void guess(const ShardingOption& option, const std::string& guess) override {
    layer_.warn(place_of(option), text("'{}' {}", option.shown, guess));
  }

  void reject(const ShardingOption& option, const std::string& message,
              const std::string& hint) override {
    const bool unknown = message.starts_with("unknown");
    layer_.problems().error(unknown ? option.where : place_of(option), message, hint);
  }

  void read_file(const ShardingOption& option) override {
    const std::string path = option.value.scalar() ? option.value.scalar()->text : "";
    try {
      const Node tree = parse_config(path);
      apply_sharding({.family = kDeepSpeedFile,
                      .options = deepspeed_file_options(tree),
                      .generated = true,
                      .enabled_by = option},
                     *this);
    } catch (const RecipeError& error) {
      for (const Diagnostic& each : error.diagnostics()) {
        layer_.problems().error(each.where.source ? each.where : place_of(option), each.message,
                                each.hint);
      }
    }
  }

  void remark(const std::string& text) override { remarks_.push_back(text); }

 private:
  struct Unused {
    Span where;
    std::string names;
    std::string reason;
    bool several = false;
  };

  static const Span& place_of(const ShardingOption& option) {
    return option.value.scalar() ? option.value.where : option.where;
  }

  CompatLayer& layer_;
  std::vector<std::string>& remarks_;
  std::map<std::string, std::string> set_by_;
  std::vector<Unused> unused_;
};

constexpr std::string_view kMaxGradNorm = "train.max_grad_norm";

/// Whether Accelerate clips gradients to the norm 1 because these options do not say otherwise. A
/// DeepSpeed file decides for itself.
bool clips_by_default(const ShardingFamily& family, const std::vector<ShardingOption>& options) {
  if (&family != &kDeepSpeedFamily && &family != &kMegatronFamily) return false;
  return std::none_of(options.begin(), options.end(), [&](const ShardingOption& each) {
    const ShardingMatch match = match_option(family, each.name, each.value);
    const bool decides = match.key && (match.key->name == "gradient_clipping" ||
                                       match.key->name == "deepspeed_config_file");
    return decides && !is_left_open(each.value);
  });
}

}  // namespace

void ShardingLayer::add(const ShardingFamily& family, ShardingOption option) {
  std::vector<ShardingOption>& options = options_[&family];
  // The last of two flags wins.
  std::erase_if(options, [&](const ShardingOption& each) { return each.name == option.name; });
  options.push_back(std::move(option));
}

void ShardingLayer::enable(const ShardingFamily& family, ShardingOption option) {
  enabled_.insert_or_assign(&family, std::move(option));
}

void ShardingLayer::finish() {
  for (const ShardingFamily* family : sharding_families()) finish_family(*family);
}

void ShardingLayer::warn_unused(const ShardingFamily& family,
                                const std::vector<ShardingOption>& options) {
  const auto given = std::find_if(options.begin(), options.end(), [](const ShardingOption& each) {
    return !is_left_open(each.value);
  });
  if (given == options.end()) return;
  if (place_ == Place::kConfig) {
    layer_.warn(given->where, text("'{}' has no effect: 'distributed_type' is not {}",
                                   family.section, family.type));
  } else {
    layer_.warn(given->value.where, text("'{}' has no effect without ACCELERATE_{}=true",
                                         given->shown, family.switch_name));
  }
}

void ShardingLayer::finish_family(const ShardingFamily& family) {
  const auto enabled = enabled_.find(&family);
  const bool on = enabled != enabled_.end();
  std::vector<ShardingOption> options = std::move(options_[&family]);
  // A section of a config needs no switch where there is no type for it.
  const bool acts =
      on || place_ == Place::kFlags || (family.type.empty() && place_ == Place::kConfig);
  if (!acts) return warn_unused(family, options);
  const bool needs_sizes = &family == &kParallelismFamily || &family == &kMegatronFamily;
  if (on && needs_sizes && options.empty()) {
    layer_.warn(enabled->second.value.where,
                text("'{}' has no effect: no sizes are given", enabled->second.shown));
    return;
  }
  // Flags are above the recipe, and would replace its norm.
  const bool clips = on && place_ != Place::kFlags && clips_by_default(family, options);
  LayerSink sink(layer_, remarks_);
  ShardingOptions given{.family = family,
                        .options = std::move(options),
                        .facts = facts_,
                        .generated = place_ == Place::kEnvironment};
  if (on) given.enabled_by = enabled->second;
  apply_sharding(std::move(given), sink);
  if (!clips || layer_.find(std::string(kMaxGradNorm))) return;
  const Span& where = enabled->second.value.where;
  layer_.set(std::string(kMaxGradNorm), scalar_node("1", false, where));
  layer_.warn(where, text("without 'gradient_clipping', Accelerate clips gradients to the norm 1: "
                          "so does this run, unless the recipe has '{}'",
                          kMaxGradNorm));
}

}  // namespace accel
