// The texts that a model with its codec writes.
#pragma once

#include <memory>
#include <set>

#include "core/model.h"
#include "core/text_generator.h"
#include "runner/job/text_codec.h"

namespace accel {

class ModelTexts final : public TextGenerator {
 public:
  /// `window`: the tokens of a sample the model was trained on; 0: unknown. `ends`: tokens that end
  /// a text beside the codec's own. The model outlives this.
  ModelTexts(LanguageModel& model, std::unique_ptr<TextCodec> codec, int64_t window,
             std::set<int64_t> ends = {});

  GeneratedText generate(const std::string& prompt, const SamplingOptions& options,
                         uint64_t stream) override;

 private:
  LanguageModel& model_;
  std::unique_ptr<TextCodec> codec_;
  int64_t window_;
  std::set<int64_t> ends_;
};

/// Null for a model that writes no texts, or data that has none. Throws DataError.
std::unique_ptr<TextGenerator> texts_of(Model& model, const Node& recipe, const DataShape& data);

}  // namespace accel
