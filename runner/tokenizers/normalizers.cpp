#include <algorithm>
#include <functional>

#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/pattern.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}

  void apply(NormalText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

/// A text for a text: for what needs to know no more.
class Mapping final : public Normalizer {
 public:
  explicit Mapping(std::function<std::string(std::string_view)> map) : map_(std::move(map)) {}

  void apply(NormalText& text) const override { text.text = map_(text.text); }

 private:
  std::function<std::string(std::string_view)> map_;
};

/// Drops the characters that a function wants dropped.
class Dropping final : public Normalizer {
 public:
  explicit Dropping(bool (*drop)(uint32_t)) : drop_(drop) {}

  void apply(NormalText& text) const override {
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

  void apply(NormalText& text) const override {
    size_t begin = 0, end = 0;  // end: behind the last character that is not white
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

  void apply(NormalText& text) const override {
    if (!text.text.empty()) text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

bool is_dropped_by_nmt(uint32_t code) {
  return (code >= 1 && code <= 8) || code == 0x0b || (code >= 0x0e && code <= 0x1f) ||
         code == 0x7f || code == 0x8f || code == 0x9f;
}

std::string nmt_blanks(std::string_view text) {
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

std::unique_ptr<Normalizer> read_replace(const JsonPlace& place) {
  place.only({"pattern", "content"});
  return mapping([pattern = Pattern::read(place.at("pattern")),
                  content = place.at("content").text()](std::string_view text) {
    return replaced(pattern, text, content);
  });
}

std::unique_ptr<Normalizer> read_normalizer_sequence(const JsonPlace& place) {
  place.only({"normalizers"});
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const JsonPlace& part : place.at("normalizers").items()) {
    if (part.is_null()) part.refuse("must be an object");
    parts.push_back(read_normalizer(part));
  }
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

std::unique_ptr<Normalizer> read_bert_normalizer(const JsonPlace& place) {
  place.only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  std::vector<std::unique_ptr<Normalizer>> parts;
  if (place.flag_or("clean_text", true)) {
    parts.push_back(std::make_unique<Dropping>(
        [](uint32_t code) { return code == 0 || is_dropped_control(code); }));
    parts.push_back(mapping([](std::string_view text) {
      std::string out;
      for (size_t at = 0; at < text.size();) {
        const auto [code, bytes] = character_at(text, at);
        out += is_white(code) ? " " : text.substr(at, bytes);
        at += bytes;
      }
      return out;
    }));
  }
  if (place.flag_or("handle_chinese_chars", true)) {
    parts.push_back(mapping([](std::string_view text) {
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
  const bool lower = place.flag_or("lowercase", true);
  if (place.flag_or("strip_accents", lower)) {
    parts.push_back(form(NormalForm::kD));
    parts.push_back(std::make_unique<Dropping>(is_nonspacing_mark));
  }
  if (lower) parts.push_back(mapping(lower_case));
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

/// One of the kinds that have no options; null for another.
std::unique_ptr<Normalizer> plain_normalizer(const std::string& type) {
  if (type == "NFC") return form(NormalForm::kC);
  if (type == "NFD") return form(NormalForm::kD);
  if (type == "NFKC") return form(NormalForm::kKC);
  if (type == "NFKD") return form(NormalForm::kKD);
  if (type == "Lowercase") return mapping(lower_case);
  if (type == "StripAccents") return std::make_unique<Dropping>(is_mark);
  if (type == "ByteLevel") return mapping(byte_level_text);
  if (type != "Nmt") return nullptr;
  std::vector<std::unique_ptr<Normalizer>> parts;
  parts.push_back(std::make_unique<Dropping>(is_dropped_by_nmt));
  parts.push_back(mapping(nmt_blanks));
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonPlace& place) {
  if (place.is_null()) return nullptr;
  const std::string& type = place.type();
  if (type == "BertNormalizer") return read_bert_normalizer(place);
  if (type == "Precompiled") return read_precompiled(place);
  if (type == "Sequence") return read_normalizer_sequence(place);
  if (type == "Replace") return read_replace(place);
  if (type == "Strip") {
    place.only({"strip_left", "strip_right"});
    return std::make_unique<StripEnds>(place.flag_or("strip_left", true),
                                       place.flag_or("strip_right", true));
  }
  if (type == "Prepend") {
    place.only({"prepend"});
    return std::make_unique<Prefixing>(place.at("prepend").text());
  }
  if (auto plain = plain_normalizer(type)) {
    place.only({});
    return plain;
  }
  place.refuse_type(
      "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, "
      "Replace, Sequence, Strip, StripAccents");
}

}  // namespace accel
