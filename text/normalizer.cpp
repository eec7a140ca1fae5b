#include "text/normalizer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "core/base/format_error.h"
#include "formats/base64.h"
#include "text/character_map.h"
#include "text/growth_limit.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace accel {
namespace {

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}

  void apply(NormalizedString& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

/// A function of the text alone.
class Mapping final : public Normalizer {
 public:
  explicit Mapping(std::function<std::string(std::string_view)> map) : map_(std::move(map)) {}

  void apply(NormalizedString& text) const override { text.text = map_(text.text); }

 private:
  std::function<std::string(std::string_view)> map_;
};

/// Drops the characters selected by a predicate.
class Dropping final : public Normalizer {
 public:
  explicit Dropping(bool (*drop)(uint32_t)) : drop_(drop) {}

  void apply(NormalizedString& text) const override {
    std::string kept;
    for (size_t at = 0; at < text.text.size();) {
      const auto [code, bytes] = character_at(text.text, at);
      if (!drop_(code)) {
        kept.append(text.text, at, bytes);
      } else if (kept.empty()) {
        text.at_start = false;
      }
      at += bytes;
    }
    text.text = std::move(kept);
  }

 private:
  bool (*drop_)(uint32_t);
};

class StripEnds final : public Normalizer {
 public:
  StripEnds(bool left, bool right) : left_(left), right_(right) {}

  void apply(NormalizedString& text) const override {
    size_t begin = 0, end = 0;  // end: after the last non-white character
    bool seen = false;
    for (size_t at = 0; at < text.text.size();) {
      const auto [code, bytes] = character_at(text.text, at);
      if (!is_white(code)) {
        if (!seen) begin = at;
        seen = true;
        end = at + bytes;
      }
      at += bytes;
    }
    if (!seen) begin = left_ ? text.text.size() : 0;
    if (right_) text.text.resize(seen ? end : 0);
    if (!left_ || begin == 0) return;
    text.text.erase(0, begin);
    text.at_start = false;
  }

 private:
  bool left_;
  bool right_;
};

class Prefixing final : public Normalizer {
 public:
  explicit Prefixing(std::string prefix) : prefix_(std::move(prefix)) {}

  void apply(NormalizedString& text) const override {
    if (!text.text.empty()) text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

bool is_dropped_by_nmt(uint32_t code) {
  return (code >= 1 && code <= 8) || code == 0x0b || (code >= 0x0e && code <= 0x1f) ||
         code == 0x7f || code == 0x8f || code == 0x9f;
}

std::string nmt_spaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    const bool blank = code == 9 || code == 10 || code == 12 || code == 13 || code == 0x1680 ||
                       (code >= 0x200b && code <= 0x200f) || code == 0x2028 || code == 0x2029 ||
                       code == 0x2581 || code == 0xfeff || code == 0xfffd;
    if (blank) {
      out += ' ';
    } else {
      out.append(text.substr(at, bytes));
    }
    at += bytes;
  }
  return out;
}

std::unique_ptr<Normalizer> mapping(std::function<std::string(std::string_view)> map) {
  return std::make_unique<Mapping>(std::move(map));
}

std::unique_ptr<Normalizer> form(NormalForm form) {
  return mapping([form](std::string_view text) { return normal_form(text, form); });
}

class Replacing final : public Normalizer {
 public:
  explicit Replacing(const JsonNode& node)
      : pattern_(Pattern::read(node.at("pattern"))), content_(node.at("content").text()) {
    node.only({"pattern", "content"});
  }

  void apply(NormalizedString& text) const override {
    text.text = replaced(pattern_, text.text, content_, text.limit);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

/// A step of the file, whose result is checked.
class CheckedNormalizer final : public Normalizer {
 public:
  CheckedNormalizer(const JsonNode& node, std::unique_ptr<Normalizer> step)
      : name_(node), step_(std::move(step)) {}

  void apply(NormalizedString& text) const override {
    step_->apply(text);
    name_.check(text.text.size(), text.limit);
  }

 private:
  StepName name_;
  std::unique_ptr<Normalizer> step_;
};

std::unique_ptr<Normalizer> read_normalizer_sequence(const JsonNode& node) {
  node.only({"normalizers"});
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonNode& step : node.at("normalizers").items()) {
    if (step.is_null()) step.refuse("must be an object");
    steps.push_back(read_normalizer(step));
  }
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

std::unique_ptr<Normalizer> read_bert_normalizer(const JsonNode& node) {
  node.only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (node.flag_or("clean_text", true)) {
    steps.push_back(std::make_unique<Dropping>(
        [](uint32_t code) { return code == 0 || is_dropped_control(code); }));
    steps.push_back(mapping([](std::string_view text) {
      std::string out;
      for (size_t at = 0; at < text.size();) {
        const auto [code, bytes] = character_at(text, at);
        out += is_white(code) ? " " : text.substr(at, bytes);
        at += bytes;
      }
      return out;
    }));
  }
  if (node.flag_or("handle_chinese_chars", true)) {
    steps.push_back(mapping([](std::string_view text) {
      std::string out;
      for (size_t at = 0; at < text.size();) {
        const auto [code, bytes] = character_at(text, at);
        const char* const around = is_ideograph(code) ? " " : "";
        out.append(around).append(text.substr(at, bytes)).append(around);
        at += bytes;
      }
      return out;
    }));
  }
  const bool lower = node.flag_or("lowercase", true);
  if (node.flag_or("strip_accents", lower)) {
    steps.push_back(form(NormalForm::kD));
    steps.push_back(std::make_unique<Dropping>(is_nonspacing_mark));
  }
  if (lower) steps.push_back(mapping(lower_case));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

/// A normalizer without options; null for other types.
std::unique_ptr<Normalizer> normalizer_without_options(const std::string& type) {
  if (type == "NFC") return form(NormalForm::kC);
  if (type == "NFD") return form(NormalForm::kD);
  if (type == "NFKC") return form(NormalForm::kKC);
  if (type == "NFKD") return form(NormalForm::kKD);
  if (type == "Lowercase") return mapping(lower_case);
  if (type == "StripAccents") return std::make_unique<Dropping>(is_mark);
  if (type == "ByteLevel") return mapping(byte_level_text);
  if (type != "Nmt") return nullptr;
  std::vector<std::unique_ptr<Normalizer>> steps;
  steps.push_back(std::make_unique<Dropping>(is_dropped_by_nmt));
  steps.push_back(mapping(nmt_spaces));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

std::unique_ptr<Normalizer> read_normalizer_step(const JsonNode& node) {
  const std::string& type = node.type();
  if (type == "BertNormalizer") return read_bert_normalizer(node);
  if (type == "Precompiled") return read_precompiled(node);
  if (type == "Sequence") return read_normalizer_sequence(node);
  if (type == "Replace") return std::make_unique<Replacing>(node);
  if (type == "Strip") {
    node.only({"strip_left", "strip_right"});
    return std::make_unique<StripEnds>(node.flag_or("strip_left", true),
                                       node.flag_or("strip_right", true));
  }
  if (type == "Prepend") {
    node.only({"prepend"});
    return std::make_unique<Prefixing>(node.at("prepend").text());
  }
  if (auto normalizer = normalizer_without_options(type)) {
    node.only({});
    return normalizer;
  }
  node.refuse_type(
      "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, "
      "Replace, Sequence, Strip, StripAccents");
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonNode& node) {
  if (node.is_null()) return nullptr;
  return std::make_unique<CheckedNormalizer>(node, read_normalizer_step(node));
}

namespace {

constexpr uint32_t kFirstOtherCharacter = 0x100;
constexpr size_t kByteLevelCharacters = 0x144;

/// Printable Latin-1 bytes map to themselves.
bool is_printable_latin1(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct ByteLevelTable {
  std::array<std::string, 256> characters;
  std::array<int16_t, kByteLevelCharacters> bytes;  ///< by code point; -1: none

  ByteLevelTable() {
    bytes.fill(-1);
    uint32_t next = kFirstOtherCharacter;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t code = is_printable_latin1(byte) ? byte : next++;
      append_character(characters[byte], code);
      bytes[code] = static_cast<int16_t>(byte);
    }
  }
};

const ByteLevelTable& byte_level_table() {
  static const ByteLevelTable table;
  return table;
}

}  // namespace

std::string byte_level_text(std::string_view bytes) {
  const ByteLevelTable& table = byte_level_table();
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 2);
  for (const char c : bytes) text += table.characters[static_cast<unsigned char>(c)];
  return text;
}

bool byte_level_bytes(std::string_view text, std::string& bytes) {
  const ByteLevelTable& table = byte_level_table();
  const size_t before = bytes.size();
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = character_at(text, at);
    if (code >= kByteLevelCharacters || table.bytes[code] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(table.bytes[code]);
    at += length;
  }
  return true;
}

namespace {

// A longer cluster is looked up character by character.
constexpr size_t kLongestCluster = 5;

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(CharacterMap map) : map_(std::move(map)) {}

  void apply(NormalizedString& text) const override {
    std::string out;
    for (size_t at = 0; at < text.text.size() && out.size() <= text.limit;) {
      const size_t length = grapheme_length(text.text, at);
      const std::string_view cluster(text.text.data() + at, length);
      at += length;
      if (length <= kLongestCluster && add_replacement(cluster, out)) continue;
      for (size_t i = 0; i < length;) {
        const size_t bytes = character_at(cluster, i).bytes;
        const std::string_view character = cluster.substr(i, bytes);
        if (!add_replacement(character, out)) out += character;
        i += bytes;
      }
    }
    text.text = std::move(out);
  }

 private:
  /// False without a replacement.
  bool add_replacement(std::string_view key, std::string& out) const {
    const auto found = map_.shortest(key);
    if (!found) return false;
    out += found->replacement;
    return true;
  }

  CharacterMap map_;
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonNode& node) {
  node.only({"precompiled_charsmap"});
  const JsonNode map = node.at("precompiled_charsmap");
  const std::optional<std::string> bytes = base64_decode(map.text());
  try {
    return std::make_unique<Precompiled>(CharacterMap(bytes.value_or("")));
  } catch (const FormatError& error) {
    map.refuse(error.what());
  }
}

}  // namespace accel
