// A text file as training data for language models, by character or by byte.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/dataset.h"
#include "core/registry.h"
#include "data/characters.h"
#include "data/fingerprint.h"
#include "data/token_windows.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {
enum class TextLevel { kChars, kBytes };
}  // namespace

template <>
struct EnumNames<TextLevel> {
  static constexpr std::pair<TextLevel, const char*> kValues[] = {{TextLevel::kChars, "chars"},
                                                                  {TextLevel::kBytes, "bytes"}};
};

namespace {

constexpr int64_t kByteValues = 256;

struct TextOptions : WindowOptions {
  FilePath path;
  TextLevel level = TextLevel::kChars;
};

class Text final : public Dataset {
 public:
  static constexpr auto kName = "text";
  static constexpr auto kSummary = "A text file, to predict each next character or byte of.";

  static Schema<TextOptions> schema() {
    return with_window_options(
        Schema<TextOptions>()
            .field("path", &TextOptions::path, "File of the text; read as needed, never whole.")
            .required()
            .field("level", &TextOptions::level,
                   "chars: the UTF-8 characters that occur in the file. bytes: any of 256."));
  }

  explicit Text(const TextOptions& options)
      : file_(map_file(options.path.text)),
        text_(reinterpret_cast<const char*>(file_.view.data()), file_.view.size()),
        characters_(options.level == TextLevel::kChars
                        ? std::optional<Characters>(std::in_place, text_, options.path.text)
                        : std::nullopt),
        windows_(options, characters_ ? characters_->count() : static_cast<int64_t>(text_.size()),
                 options.path.text) {
    Fingerprint fingerprint;
    fingerprint.add(characters_ ? "chars" : "bytes").add_content(file_.view);
    windows_.add_to(fingerprint);
    fingerprint_ = fingerprint.text();
  }

  int64_t size() const override { return windows_.size(); }

  Sample sample(int64_t index) const override {
    return windows_.sample(index, [this](int64_t first, std::span<int64_t> ids) {
      if (characters_) return characters_->read(first, ids);
      for (size_t i = 0; i < ids.size(); ++i) {
        ids[i] = static_cast<unsigned char>(text_[static_cast<size_t>(first) + i]);
      }
    });
  }

  DataShape shape() const override {
    DataShape shape = windows_.shape();
    if (characters_) shape.labels = characters_->names();
    shape.vocab = characters_ ? static_cast<int64_t>(shape.labels.size()) : kByteValues;
    return shape;
  }

  std::string fingerprint() const override { return fingerprint_; }

 private:
  SharedBytes file_;
  std::string_view text_;
  std::optional<Characters> characters_;
  TokenWindows windows_;
  std::string fingerprint_;
};

const Register<Text> text;

}  // namespace
}  // namespace accel
