#include "core/recipe/codec.h"

#include <filesystem>

#include "core/base/hub_cache.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/recipe/other_names.h"

namespace accel {

void Reading::wrong_type(const Node& node, const std::string& name, const std::string& wanted,
                         const std::string& hint) {
  const std::string all =
      other_word.node == &node ? detail::or_word(wanted, other_word.text) : wanted;
  problems.error(
      node.where, text("'{}' wants {}, not {}", name, all, node.describe()),
      hint.empty() && node.scalar() ? other_value_hint(name, node.scalar()->text) : hint);
}

namespace detail {

std::string one_or_list(const std::string& one) {
  return "\"anyOf\": [{" + one + "}, {\"type\": \"array\", \"items\": {" + one + "}}]";
}

std::string map_of(const std::string& one) {
  return "\"type\": \"object\", \"additionalProperties\": {" + one + "}";
}

std::string value_or(const std::string& one, const std::string& words) {
  return "\"anyOf\": [{" + one + "}, {" + words + "}]";
}

std::string or_word(const std::string& name, const std::string& word) {
  return text("{} or '{}'", name, word);
}

}  // namespace detail

namespace {

/// The scalar, unless it is a secret, which is reported.
const Scalar* open_text(const Node& node, const std::string& name, const std::string& wanted,
                        Reading& reading) {
  const Scalar* scalar = node.scalar();
  if (!scalar) {
    reading.wrong_type(node, name, wanted);
    return nullptr;
  }
  if (!scalar->secret) return scalar;
  reading.problems.error(node.where, text("'{}' would show a secret", name),
                         "only options that take a secret may hold '${secret:...}'");
  return nullptr;
}

}  // namespace

std::optional<std::string> Codec<std::string>::read(const Node& node, const std::string& name,
                                                    Reading& reading) {
  const Scalar* scalar = open_text(node, name, Codec::name(), reading);
  return scalar ? std::optional(scalar->text) : std::nullopt;
}

std::optional<FilePath> Codec<FilePath>::read(const Node& node, const std::string& name,
                                              Reading& reading) {
  const Scalar* scalar = open_text(node, name, Codec::name(), reading);
  if (!scalar) return std::nullopt;
  if (scalar->text.empty()) return FilePath{};
  if (scalar->text == "~" || scalar->text.starts_with("~/")) {
    reading.problems.error(node.where,
                           text("'{}' starts with '~', which only a shell expands", name),
                           text("write '${env:HOME}{}'", scalar->text.substr(1)));
    return std::nullopt;
  }
  if (scalar->text.find("://") != std::string::npos) {
    reading.problems.error(
        node.where, text("'{}' takes a path, not the URL '{}'", name, printable_url(scalar->text)),
        "the datasets 'tokens', 'hf', 'hf_images', 'hf_tokens', 'parquet', 'mds' and 'webdataset' "
        "read URLs; download other files first");
    return std::nullopt;
  }
  if (scalar->text.starts_with(kHubPrefix)) {
    const auto folder = hub_snapshot(std::string_view(scalar->text).substr(kHubPrefix.size()));
    if (folder) return FilePath{*folder};
    reading.problems.error(node.where,
                           text("'{}' is '{}', which is not on this machine", name, scalar->text),
                           text("fetch it first: 'accel-run download {}'", scalar->text));
    return std::nullopt;
  }
  namespace fs = std::filesystem;
  fs::path path = scalar->text;
  const Source* source = scalar->base ? scalar->base.get() : node.where.source.get();
  if (path.is_relative() && source && source->kind == Source::Kind::kFile) {
    path = fs::path(source->path).parent_path() / path;
  }
  return FilePath{fs::absolute(path).lexically_normal().string()};
}

std::optional<Secret> Codec<Secret>::read(const Node& node, const std::string& name,
                                          Reading& reading) {
  const Scalar* scalar = node.scalar();
  if (!scalar) {
    reading.wrong_type(node, name, Codec::name());
    return std::nullopt;
  }
  if (scalar->text.empty()) return Secret{};
  if (!scalar->secret) {
    // The message does not repeat the text, which may be a secret.
    reading.problems.error(node.where, text("'{}' has a secret in plain text", name),
                           "put it in the environment and write '${secret:NAME}'");
    return std::nullopt;
  }
  return Secret{*scalar->secret, scalar->text};
}

Node Codec<Secret>::write(const Secret& value) {
  Node node = scalar_node(value.reference, true);
  if (!value.reference.empty()) {
    node.scalar()->secret = std::make_shared<const std::string>(value.value);
  }
  return node;
}

std::optional<Durations> Codec<Durations>::read(const Node& node, const std::string& name,
                                                Reading& reading) {
  if (node.scalar() && node.scalar()->text == "never") return Durations{};
  Durations out;
  const Node::List one = {node};
  const size_t before = reading.problems.size();
  for (const Node& item : node.list() ? *node.list() : one) {
    if (std::optional<Duration> d = Codec<Duration>::read(item, name, reading)) out.push_back(*d);
  }
  return reading.problems.size() == before ? std::optional(std::move(out)) : std::nullopt;
}

Node Codec<Durations>::write(const Durations& values) {
  if (values.empty()) return scalar_node("never");
  if (values.size() == 1) return Codec<Duration>::write(values[0]);
  Node::List list;
  for (const Duration& value : values) list.push_back(Codec<Duration>::write(value));
  return {std::move(list), {}};
}

}  // namespace accel
