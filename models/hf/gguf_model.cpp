#include "models/hf/gguf_model.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

void refuse_gguf(const std::string& what) {
  throw Error(ExitCode::kRecipe, text("llama.cpp's models lack what this model has: {}", what),
              "export a folder for transformers: '--format transformers'");
}

std::string gguf_weight_name(const std::string& name, std::string_view layers,
                             std::span<const GgufName> names) {
  const size_t dot = name.rfind('.');
  std::string_view module = std::string_view(name).substr(0, dot + 1);
  std::string block;
  if (module.starts_with(layers)) {
    const size_t end = module.find('.', layers.size());
    block = text("blk.{}.", module.substr(layers.size(), end - layers.size()));
    module = module.substr(end + 1);
  }
  for (const GgufName& known : names) {
    if (module == known.stored) return block + known.ours + name.substr(dot + 1);
  }
  refuse_gguf(text("the weight '{}'", name));
}

}  // namespace accel
