#include "text/pipeline.h"

#include <functional>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/growth_limit.h"
#include "text/normalizer.h"
#include "text/pattern.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace accel {
namespace {

using Tokens = std::vector<std::string>;

constexpr int64_t kMaxStripped = 1'000'000;

class FunctionDecoder final : public TokenDecoder {
 public:
  using Rewrite = std::function<void(Tokens&, size_t limit)>;

  explicit FunctionDecoder(Rewrite rewrite) : rewrite_(std::move(rewrite)) {}

  void apply(Tokens& tokens, size_t limit) const override { rewrite_(tokens, limit); }

 private:
  Rewrite rewrite_;
};

std::unique_ptr<TokenDecoder> limited_decoder(FunctionDecoder::Rewrite rewrite) {
  return std::make_unique<FunctionDecoder>(std::move(rewrite));
}

std::unique_ptr<TokenDecoder> token_decoder(std::function<void(Tokens&)> rewrite) {
  return limited_decoder(
      [rewrite = std::move(rewrite)](Tokens& tokens, size_t /*limit*/) { rewrite(tokens); });
}

size_t bytes_of(const Tokens& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

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

/// clean_up_tokenization_spaces: removes the spaces that English does not have.
void clean_up(std::string& text) {
  static constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

std::unique_ptr<TokenDecoder> read_wordpiece_decoder(const JsonNode& node) {
  node.only({"prefix", "cleanup"});
  return token_decoder([prefix = node.text_or("prefix", "##"),
                        clean = node.flag_or("cleanup", true)](Tokens& tokens) {
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

std::unique_ptr<TokenDecoder> read_metaspace_decoder(const JsonNode& node) {
  return token_decoder([options = read_metaspace(node)](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool drop = i == 0 && options.prepend != PrependScheme::kNever;
      replace_all(tokens[i], options.mark, drop ? "" : " ");
    }
  });
}

std::unique_ptr<TokenDecoder> read_bpe_decoder(const JsonNode& node) {
  node.only({"suffix"});
  return token_decoder([suffix = node.text_or("suffix", "</w>")](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
    }
  });
}

/// The byte of a token such as <0x0A>; -1 for other tokens.
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

/// A run of bytes that is not UTF-8 becomes one U+FFFD per byte.
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

std::unique_ptr<TokenDecoder> read_strip_decoder(const JsonNode& node) {
  node.only({"content", "start", "stop"});
  node.at("content").character();
  const auto count = [&](const char* name) {
    return static_cast<size_t>(node.at(name).integer(0, kMaxStripped));
  };
  return token_decoder([content = node.at("content").text(), start = count("start"),
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

std::unique_ptr<TokenDecoder> read_replace_decoder(const JsonNode& node) {
  node.only({"pattern", "content"});
  return limited_decoder([pattern = Pattern::read(node.at("pattern")),
                          content = node.at("content").text()](Tokens& tokens, size_t limit) {
    size_t bytes = 0;
    for (std::string& token : tokens) {
      token = replaced(pattern, token, content, limit - bytes);
      bytes += token.size();
      if (bytes > limit) return;
    }
  });
}

std::unique_ptr<TokenDecoder> read_decoder_sequence(const JsonNode& node) {
  node.only({"decoders"});
  std::vector<std::shared_ptr<TokenDecoder>> steps;
  for (const JsonNode& step : node.at("decoders").items()) {
    if (step.is_null()) step.refuse("must be an object");
    steps.push_back(read_decoder(step));
  }
  return limited_decoder([steps = std::move(steps)](Tokens& tokens, size_t limit) {
    for (const auto& step : steps) step->apply(tokens, limit);
  });
}

std::unique_ptr<TokenDecoder> read_decoder_step(const JsonNode& node) {
  const std::string& type = node.type();
  if (type == "WordPiece") return read_wordpiece_decoder(node);
  if (type == "Metaspace") return read_metaspace_decoder(node);
  if (type == "BPEDecoder") return read_bpe_decoder(node);
  if (type == "Strip") return read_strip_decoder(node);
  if (type == "Replace") return read_replace_decoder(node);
  if (type == "Sequence") return read_decoder_sequence(node);
  if (type == "ByteLevel") {
    node.only({"add_prefix_space", "trim_offsets", "use_regex"});  // used in encoding only
    return token_decoder(decode_byte_level);
  }
  if (type == "ByteFallback") {
    node.only({});
    return token_decoder(decode_bytes);
  }
  if (type == "Fuse") {
    node.only({});
    return token_decoder([](Tokens& tokens) { tokens = {joined(tokens, "")}; });
  }
  node.refuse_type(
      "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece");
}

}  // namespace

std::unique_ptr<TokenDecoder> read_decoder(const JsonNode& node) {
  if (node.is_null()) return nullptr;
  return limited_decoder(
      [name = StepName(node), step = std::shared_ptr<const TokenDecoder>(read_decoder_step(node))](
          Tokens& tokens, size_t limit) {
        step->apply(tokens, limit);
        name.check(bytes_of(tokens), limit);
      });
}

}  // namespace accel
