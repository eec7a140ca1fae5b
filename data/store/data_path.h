// Option type for data on the disk or in an object store.
#pragma once

#include <optional>
#include <string>

#include "core/recipe/codec.h"

namespace accel {

/// Whether `text` is a URL.
bool is_url(const std::string& text);

/// A path, as InputPath, or a URL: https://..., http://... or s3://BUCKET/PREFIX, without a slash
/// at the end.
struct DataPath {
  std::string text;

  bool is_url() const { return accel::is_url(text); }
};

template <>
struct Codec<DataPath> {
  static std::string name() { return "an existing path or a URL"; }
  static std::string json() { return Codec<FilePath>::json(); }
  /// Refuses URLs with a password or a query: recipes are recorded with their runs.
  static std::optional<DataPath> read(const Node& node, const std::string& name, Reading& reading);
  static Node write(const DataPath& value) { return Codec<FilePath>::write({value.text}); }
};

}  // namespace accel
