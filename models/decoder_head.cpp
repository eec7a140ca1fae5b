#include "models/decoder_head.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/ones_like.h>

#include <nlohmann/json.hpp>

#include "core/api/sequence_pairs.h"
#include "models/layers/input_spec.h"
#include "models/layers/sizes.h"

namespace accel {

const char* decoder_head_layer(EncoderHead kind) {
  return kind == EncoderHead::kLabels ? "classifier"
         : kind == EncoderHead::kSpan ? "qa_outputs"
                                      : "score";
}

int64_t DecoderHead::outputs(const DataShape& data) const {
  if (kind == EncoderHead::kSpan) return kSpanOutputs;
  const bool of_labels = kind == EncoderHead::kLabels;
  const int64_t in_data = of_labels ? data.classes : num_classes ? 0 : output_count(data);
  return equal_size({model, "num_classes", num_classes, in_data});
}

const char* DecoderHead::default_task(const DataShape& data) const {
  if (kind == EncoderHead::kTokens) return "causal_lm";
  if (kind == EncoderHead::kClasses && has_sequence_pairs(data)) return "reward";
  return task_of(kind, classifier_task(problem_type, data));
}

at::Tensor DecoderHead::forward(AdaptedLinearImpl& layer, const at::Tensor& hidden,
                                const Batch& batch) const {
  if (kind == EncoderHead::kLabels) {
    return layer.forward(at::dropout(hidden, dropout, layer.is_training()));
  }
  if (kind != EncoderHead::kClasses) return layer.forward(hidden);
  const at::Tensor last = pooled_positions(batch).view({-1, 1, 1}).expand({-1, 1, hidden.size(2)});
  return layer.forward(hidden.gather(1, last).squeeze(1));
}

at::Tensor DecoderHead::pooled_positions(const Batch& batch) const {
  const at::Tensor& tokens = batch.inputs;
  const at::Tensor positions = at::arange(tokens.size(1), tokens.options());
  at::Tensor counted = at::ones_like(tokens, at::kBool);
  if (batch.lengths.defined()) counted = positions.lt(batch.lengths.unsqueeze(1));
  if (pad) counted = counted.logical_and(tokens.ne(*pad));
  return positions.mul(counted).argmax(-1);
}

void DecoderHead::write(const std::string& weight, const WeightShapes& shapes,
                        nlohmann::json& config) const {
  if (kind != EncoderHead::kSpan) write_labels(shapes.at(weight).at(0), config);
  if (kind == EncoderHead::kLabels) config["classifier_dropout"] = dropout;
  if (pad) config["pad_token_id"] = *pad;
}

void write_decoder_head(const DecoderHead& head, const std::string& prefix,
                        const WeightShapes& shapes, nlohmann::json& config) {
  const bool of_tokens = head.is_language_model();
  config["architectures"] = {prefix + (of_tokens ? "ForCausalLM" : architecture_suffix(head.kind))};
  if (of_tokens) return;
  head.write(std::string(decoder_head_layer(head.kind)) + ".weight", shapes, config);
}

void add_head_names(EncoderHead kind, const std::string& table, const char* untied,
                    HfNames& names) {
  const bool is_language = kind == EncoderHead::kTokens;
  if (!is_language) {
    names.heads.push_back(std::string(decoder_head_layer(kind)) + ".*");
  } else {
    names.tied_table = table;
  }
  (is_language && table.empty() ? names.heads : names.unused).emplace_back(untied);
}

}  // namespace accel
