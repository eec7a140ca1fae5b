// Option types for input files and folders of components.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/recipe/codec.h"

namespace accel {

/// The path of a file or folder that must exist when a run starts. Reading the recipe does not
/// check it, so that a recipe can be shown on a machine without the data.
struct InputPath : FilePath {};

template <>
struct Codec<InputPath> {
  static std::string name() { return "an existing path"; }
  static std::string json() { return Codec<FilePath>::json(); }
  static std::optional<InputPath> read(const Node& node, const std::string& name,
                                       Reading& reading) {
    std::optional<FilePath> path = Codec<FilePath>::read(node, name, reading);
    return path ? std::optional(InputPath{std::move(*path)}) : std::nullopt;
  }
  static Node write(const InputPath& value) { return Codec<FilePath>::write(value); }
};

/// The path of a file.
struct InputFile : InputPath {};

template <>
struct Codec<InputFile> {
  static std::string name() { return "an existing file"; }
  static std::string json() { return Codec<FilePath>::json(); }
  static std::optional<InputFile> read(const Node& node, const std::string& name,
                                       Reading& reading) {
    std::optional<InputPath> path = Codec<InputPath>::read(node, name, reading);
    return path ? std::optional(InputFile{std::move(*path)}) : std::nullopt;
  }
  static Node write(const InputFile& value) { return Codec<FilePath>::write(value); }
};

}  // namespace accel
