#include "runner/tokenizers/json_file.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runner/formats/bytes.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/strict_json.h"

namespace accel {
namespace {

constexpr int kMaxJsonDepth = 32;
constexpr size_t kTreePerByte = 32;  ///< a merge is ten bytes of text, and three values

}  // namespace

void read_json_text(std::string_view text,
                    const std::function<void(const JsonPlace&, std::string_view)>& use) {
  MemoryBudget budget(text.size() * kTreePerByte, "the JSON");
  const nlohmann::json tree = parse_strict_json(text, "the text", kMaxJsonDepth, budget);
  use(JsonPlace(tree, ""), text);
}

void read_json_file(const std::filesystem::path& path,
                    const std::function<void(const JsonPlace&, std::string_view)>& use) {
  const SharedBytes file = map_file(path.string());
  try {
    read_json_text(as_text(file.view), use);
  } catch (const FormatError& error) {
    throw DataError("'" + path.string() + "': " + error.what());
  }
}

}  // namespace accel
