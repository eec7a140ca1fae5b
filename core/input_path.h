// Options that name what a component reads.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/codec.h"

namespace accel {

/// The path of a file or folder that must be there before a run starts. A recipe that names another
/// can still be read and shown, on a machine without the data: who starts a run asks.
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

/// One that names a file and no folder.
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
