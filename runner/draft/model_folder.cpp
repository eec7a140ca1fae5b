#include "runner/draft/model_folder.h"

#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "formats/strict_json.h"

namespace accel {

namespace fs = std::filesystem;

nlohmann::json read_config(const fs::path& file) {
  const SharedBytes bytes = map_file(file.string());
  try {
    MemoryBudget budget(bytes.view.size(), file.string());
    return parse_strict_json(as_text(bytes.view), single_quoted(file.string()), 32, budget);
  } catch (const FormatError& error) {
    throw DataError(error.what());
  }
}

nlohmann::json config_of_folder(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  if (!fs::is_regular_file(config)) {
    throw Error(ExitCode::kRecipe,
                text("'--model {}': there is no '{}'", folder.string(), config.string()),
                "name a folder as Hugging Face's save_pretrained() writes it");
  }
  return read_config(config);
}

std::string model_type_in(const nlohmann::json& config, const fs::path& folder) {
  const auto type = config.find("model_type");
  if (type != config.end() && type->is_string()) return type->get<std::string>();
  throw DataError(text("'{}' has no 'model_type'", (folder / "config.json").string()));
}

}  // namespace accel
