#include <functional>

#include "core/utf8.h"
#include "runner/tokenizers/decoder.h"
#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/pattern.h"
#include "runner/tokenizers/pre_tokenizer.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

using Tokens = std::vector<std::string>;

constexpr int64_t kMostStripped = 1'000'000;

class Rewriting final : public TokenDecoder {
 public:
  explicit Rewriting(std::function<void(Tokens&)> rewrite) : rewrite_(std::move(rewrite)) {}

  void apply(Tokens& tokens) const override { rewrite_(tokens); }

 private:
  std::function<void(Tokens&)> rewrite_;
};

std::unique_ptr<TokenDecoder> rewriting(std::function<void(Tokens&)> rewrite) {
  return std::make_unique<Rewriting>(std::move(rewrite));
}

std::string joined(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

/// Each occurrence of `from`, left to right, as `to`.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (!from.empty()) text = replaced(Pattern::literal(std::string(from)), text, to);
}

void decode_byte_level(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    if (!byte_level_bytes(token, bytes)) bytes += token;
  }
  tokens = {lossy_utf8(bytes)};
}

/// Blanks that English does not have.
void clean_up(std::string& text) {
  static constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

std::unique_ptr<TokenDecoder> read_wordpiece_decoder(const JsonPlace& place) {
  place.only({"prefix", "cleanup"});
  return rewriting([prefix = place.text_or("prefix", "##"),
                    clean = place.flag_or("cleanup", true)](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) {
        if (tokens[i].starts_with(prefix)) {
          tokens[i].erase(0, prefix.size());
        } else {
          tokens[i].insert(0, 1, ' ');
        }
      }
      if (clean) clean_up(tokens[i]);
    }
  });
}

std::unique_ptr<TokenDecoder> read_metaspace_decoder(const JsonPlace& place) {
  return rewriting([options = read_metaspace(place)](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool drop = i == 0 && options.prepend != PrependScheme::kNever;
      replace_all(tokens[i], options.mark, drop ? "" : " ");
    }
  });
}

std::unique_ptr<TokenDecoder> read_bpe_decoder(const JsonPlace& place) {
  place.only({"suffix"});
  return rewriting([suffix = place.text_or("suffix", "</w>")](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
    }
  });
}

/// The byte that a token such as <0x0A> stands for; -1: none.
int byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  for (const char c : std::string_view(token).substr(3, 2)) {
    const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return -1;
    byte = byte * 16 + static_cast<int>(digit < 16 ? digit : digit - 6);
  }
  return byte;
}

/// Runs of bytes that are no text become one U+FFFD for each byte.
void decode_bytes(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_utf8(bytes)) {
      out.push_back(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\xef\xbf\xbd");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const int byte = byte_of(token); byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(out);
}

std::unique_ptr<TokenDecoder> read_strip_decoder(const JsonPlace& place) {
  place.only({"content", "start", "stop"});
  place.at("content").character();
  const auto count = [&](const char* name) {
    return static_cast<size_t>(place.at(name).integer(0, kMostStripped));
  };
  return rewriting([content = place.at("content").text(), start = count("start"),
                    stop = count("stop")](Tokens& tokens) {
    for (std::string& token : tokens) {
      for (size_t i = 0; i < start && token.starts_with(content); ++i) {
        token.erase(0, content.size());
      }
      for (size_t i = 0; i < stop && token.ends_with(content); ++i) {
        token.resize(token.size() - content.size());
      }
    }
  });
}

std::unique_ptr<TokenDecoder> read_replace_decoder(const JsonPlace& place) {
  place.only({"pattern", "content"});
  return rewriting([pattern = Pattern::read(place.at("pattern")),
                    content = place.at("content").text()](Tokens& tokens) {
    for (std::string& token : tokens) token = replaced(pattern, token, content);
  });
}

std::unique_ptr<TokenDecoder> read_decoder_sequence(const JsonPlace& place) {
  place.only({"decoders"});
  std::vector<std::shared_ptr<TokenDecoder>> parts;
  for (const JsonPlace& part : place.at("decoders").items()) {
    if (part.is_null()) part.refuse("must be an object");
    parts.push_back(read_decoder(part));
  }
  return rewriting([parts = std::move(parts)](Tokens& tokens) {
    for (const auto& part : parts) part->apply(tokens);
  });
}

}  // namespace

std::unique_ptr<TokenDecoder> read_decoder(const JsonPlace& place) {
  if (place.is_null()) return nullptr;
  const std::string& type = place.type();
  if (type == "WordPiece") return read_wordpiece_decoder(place);
  if (type == "Metaspace") return read_metaspace_decoder(place);
  if (type == "BPEDecoder") return read_bpe_decoder(place);
  if (type == "Strip") return read_strip_decoder(place);
  if (type == "Replace") return read_replace_decoder(place);
  if (type == "Sequence") return read_decoder_sequence(place);
  if (type == "ByteLevel") {
    place.only({"add_prefix_space", "trim_offsets", "use_regex"});  // all about the other way
    return rewriting(decode_byte_level);
  }
  if (type == "ByteFallback") {
    place.only({});
    return rewriting(decode_bytes);
  }
  if (type == "Fuse") {
    place.only({});
    return rewriting([](Tokens& tokens) { tokens = {joined(tokens)}; });
  }
  place.refuse_type(
      "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece");
}

}  // namespace accel
