#include "core/codec.h"

#include <filesystem>

namespace accel {

void Reading::wrong_type(const Node& node, const std::string& name, const std::string& wanted,
                         const std::string& hint) {
  problems.error(node.where, "'" + name + "' wants " + wanted + ", not " + node.describe(), hint);
}

std::optional<std::string> Codec<std::string>::read(const Node& node, const std::string& name,
                                                    Reading& reading) {
  if (const Scalar* scalar = node.scalar()) return scalar->text;
  reading.wrong_type(node, name, Codec::name());
  return std::nullopt;
}

std::optional<FilePath> Codec<FilePath>::read(const Node& node, const std::string& name,
                                              Reading& reading) {
  const Scalar* scalar = node.scalar();
  if (!scalar) {
    reading.wrong_type(node, name, Codec::name());
    return std::nullopt;
  }
  if (scalar->text.empty()) return FilePath{};
  namespace fs = std::filesystem;
  fs::path path = scalar->text;
  const Source* source = node.where.source.get();
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
  return Secret{scalar->text, scalar->text};
}

std::optional<Durations> Codec<Durations>::read(const Node& node, const std::string& name,
                                                Reading& reading) {
  if (node.scalar() && node.scalar()->text == "never") return Durations{};
  if (node.null()) return Durations{};
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
