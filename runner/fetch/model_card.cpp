#include "runner/fetch/model_card.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The hub's pipeline by the end of a class name of transformers.
constexpr std::array<std::pair<const char*, const char*>, 8> kPipelines = {
    {{"ForCausalLM", "text-generation"},
     {"LMHeadModel", "text-generation"},
     {"ForSequenceClassification", "text-classification"},
     {"ForTokenClassification", "token-classification"},
     {"ForQuestionAnswering", "question-answering"},
     {"ForMaskedLM", "fill-mask"},
     {"ForConditionalGeneration", "text2text-generation"},
     {"ForImageClassification", "image-classification"}}};

json json_of(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return nullptr;
  const SharedBytes bytes = map_file(file);
  return json::parse(as_text(bytes.view), nullptr, false);
}

std::string pipeline_of(const json& config) {
  const json classes = config.value("architectures", json::array());
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return "";
  const std::string name = classes[0];
  for (const auto& [end, pipeline] : kPipelines) {
    if (name.ends_with(end)) return pipeline;
  }
  return "";
}

/// Whether it is "org/name" rather than a folder of this machine.
bool is_hub_name(const std::string& text) {
  return !text.starts_with('/') && !text.starts_with('.') &&
         std::count(text.begin(), text.end(), '/') == 1;
}

}  // namespace

std::string model_card(const std::string& repository, const fs::path& folder,
                       const std::string& training) {
  const json config = json_of(folder / "config.json");
  const json adapter = json_of(folder / "adapter_config.json");
  if (!config.is_object() && !adapter.is_object()) {
    throw DataError(
        text("'{}' has neither 'config.json' nor 'adapter_config.json'", folder.string()),
        "push a run, or a folder that 'accel-run export' wrote");
  }
  std::string out = "---\n";
  out += adapter.is_object() ? "library_name: peft\n" : "library_name: transformers\n";
  if (adapter.is_object()) {
    const json base = adapter.value("base_model_name_or_path", json(""));
    if (base.is_string() && is_hub_name(base))
      out += "base_model: " + base.get<std::string>() + "\n";
  } else if (const std::string pipeline = pipeline_of(config); !pipeline.empty()) {
    out += "pipeline_tag: " + pipeline + "\n";
  }
  out += "tags:\n- accel-run\n---\n\n# " + repository.substr(repository.rfind('/') + 1) + "\n\n";
  return out + training + "\n";
}

}  // namespace accel
