// `accelerator.fp8` of a recipe.
#include <algorithm>
#include <string>

#include "core/base/text.h"
#include "core/recipe/codec.h"
#include "train/recipe/accelerator_section.h"
#include "train/recipe/section_check.h"

namespace accel {
namespace {

/// The first option of delayed scaling that is not at its default; null without one.
const char* delayed_option(const Fp8Section& fp8) {
  const Fp8Section none;
  const std::pair<bool, const char*> options[] = {
      {fp8.format != none.format, "format"},
      {fp8.margin != none.margin, "margin"},
      {fp8.interval != none.interval, "interval"},
      {fp8.amax_history_len != none.amax_history_len, "amax_history_len"},
      {fp8.amax_compute_algo != none.amax_compute_algo, "amax_compute_algo"},
      {fp8.override_linear_precision != none.override_linear_precision,
       "override_linear_precision"}};
  for (const auto& [given, name] : options) {
    if (given) return name;
  }
  return nullptr;
}

void check_delayed(const AcceleratorSection& section, SectionCheck& check) {
  const Fp8Section& fp8 = section.fp8;
  const std::vector<LinearProduct>& others = fp8.override_linear_precision;
  const bool none_left =
      std::all_of(std::begin(EnumNames<LinearProduct>::kValues),
                  std::end(EnumNames<LinearProduct>::kValues), [&](const auto& item) {
                    return std::find(others.begin(), others.end(), item.first) != others.end();
                  });
  if (none_left) {
    check.error("fp8", "'override_linear_precision' leaves no product in fp8",
                "name at most two of fprop, dgrad and wgrad, or train in bf16");
  }
  const bool other_layers = section.parallelism.pp > 1 || section.parallelism.ep > 1;
  if (!other_layers) return;
  check.error("fp8",
              text("'recipe' delayed does not support 'parallelism.{}': scales are shared by ranks "
                   "with the same layers",
                   section.parallelism.pp > 1 ? "pp" : "ep"),
              "use 'recipe: tensorwise'");
}

void check_gather(const AcceleratorSection& section, SectionCheck& check) {
  const Fp8Section& fp8 = section.fp8;
  const auto refuse = [&](const std::string& why, const char* hint) {
    check.error("fp8", "'all_gather' " + why, hint);
  };
  if (section.fsdp.stage == 0) {
    refuse("has no effect without 'fsdp'", "leave it out, or set 'fsdp.stage: 3'");
  } else if (fp8.recipe != Fp8Recipe::kTensorwise) {
    const std::string recipe = Codec<Fp8Recipe>::write(fp8.recipe).scalar()->text;
    refuse(text("does not support 'recipe' {}, which casts the whole weight", recipe),
           "leave it out, or set 'recipe: tensorwise'");
  } else if (!fp8.use_autocast_during_eval.value_or(true)) {
    refuse(
        "does not support 'use_autocast_during_eval: false': evaluations would need the weights "
        "in bf16",
        "leave one of the two out");
  } else if (section.fsdp.param_dtype_under(section.mixed_precision) != FsdpDtype::kBf16) {
    refuse("does not support 'fsdp.param_dtype' other than bf16", "leave one of the two out");
  } else if (section.fsdp.offload == Offload::kDisk) {
    refuse(
        "does not support 'fsdp.offload: disk', whose weights are not in memory for their scales",
        "leave one of the two out");
  }
}

}  // namespace

void check_fp8_section(const AcceleratorSection& section, SectionCheck& check) {
  const Fp8Section& fp8 = section.fp8;
  if (section.mixed_precision != MixedPrecision::kFp8) {
    if (fp8.is_default()) return;
    check.error("fp8", "'fp8' has no effect without mixed_precision: fp8",
                "leave it out, or set 'mixed_precision: fp8'");
    return;
  }
  if (fp8.all_gather) check_gather(section, check);
  if (fp8.recipe == Fp8Recipe::kDelayed) {
    check_delayed(section, check);
  } else if (const char* option = delayed_option(fp8)) {
    const std::string recipe = Codec<Fp8Recipe>::write(fp8.recipe).scalar()->text;
    check.error("fp8", text("'{}' has no effect with 'recipe' {}", option, recipe),
                "leave it out, or set 'recipe: delayed'");
  }
}

bool Fp8Section::is_default() const {
  const Fp8Section none;
  return recipe == none.recipe && !delayed_option(*this) && all_gather == none.all_gather &&
         pad_inner_dim == none.pad_inner_dim && !use_autocast_during_eval && !filter;
}

Schema<Fp8Section> Fp8Section::schema() {
  return Schema<Fp8Section>()
      .field("recipe", &Fp8Section::recipe,
             "Scales of fp8 values. tensorwise: one per tensor, of its largest magnitude; fastest. "
             "rowwise: one per row of each product; more accurate. rowwise_gw_hp: likewise, with "
             "gradients of weights in bf16; most accurate. delayed: one per tensor, of the "
             "magnitudes of earlier steps, as Transformer Engine.")
      .hint_for({"recipe_name"}, "rowwise_with_gw_hp>rowwise_gw_hp|{}")
      .hint_for({"backend", "fp8_backend"}, "ao>tensorwise|te>delayed|{}")
      .field("format", &Fp8Section::format,
             "Types of `delayed`. hybrid: e4m3, and e5m2 for gradients of outputs; e4m3: e4m3 "
             "for all.")
      .hint_for({"fp8_format"}, "{}")
      .field("margin", &Fp8Section::margin,
             "`delayed`: scales are divided by 2^margin, for magnitudes that grow.",
             between<int64_t>(0, 64))
      .field("interval", &Fp8Section::interval,
             "`delayed`: optimizer steps from one computation of scales to the next.",
             at_least<int64_t>(1))
      .field("amax_history_len", &Fp8Section::amax_history_len,
             "`delayed`: steps whose largest magnitudes are kept.", between<int64_t>(1, 1 << 20))
      .on_resume(Change::kImpossible)
      .field("amax_compute_algo", &Fp8Section::amax_compute_algo,
             "`delayed`: the magnitude of the next scale. most_recent: that of the last step; max: "
             "the largest of the history.")
      .field("override_linear_precision", &Fp8Section::override_linear_precision,
             "`delayed`: products in bf16: fprop (output), dgrad (gradient of the input), wgrad "
             "(gradient of the weight).")
      .field("all_gather", &Fp8Section::all_gather,
             "`tensorwise`: gather weights of `fsdp` in fp8, with half the bytes of bf16 and the "
             "same results.")
      .hint_for({"enable_fsdp_float8_all_gather", "fp8_enable_fsdp_float8_all_gather"})
      .field("pad_inner_dim", &Fp8Section::pad_inner_dim,
             "Pad the rows of a micro-batch to a multiple of 16 for gradients of weights. false: "
             "other numbers of rows are an error.")
      .field("use_autocast_during_eval", &Fp8Section::use_autocast_during_eval,
             "Evaluate in fp8 too. auto: not with `delayed`, as Accelerate.")
      .field("filter", &Fp8Section::filter,
             "Patterns of linear layers that stay in bf16, such as '*.down_proj'; auto: the first "
             "and the last one. Heads of language models, routers, quantized layers, and layers "
             "with sizes that are no multiple of 16 always do.")
      .hint_for({"filter_fqns", "module_filter_fqns"});
}

}  // namespace accel
