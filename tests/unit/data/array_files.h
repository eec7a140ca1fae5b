// The files of the datasets `idx` and `npy`, as tests write them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel {

inline std::string idx_file(const std::vector<uint32_t>& sizes, const std::string& values) {
  std::string out = {'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) out += big_endian_32(size);
  return out + values;
}

template <class T>
std::string npy_file(const std::string& descr, const std::string& shape,
                     const std::vector<T>& values) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  std::string raw(values.size() * sizeof(T), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + raw;
}

/// Makes the datasets `idx` and `npy` of files with the content that a test gives.
class ArrayFilesTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> idx(const std::string& images, const std::string& labels,
                               const std::string& options = "") {
    put("a", images);
    put("b", labels);
    return build<Dataset>("type: idx\nimages: " + images_ + "\nlabels: " + labels_ + "\n" +
                          options);
  }

  std::unique_ptr<Dataset> npy(const std::string& inputs, const std::string& targets,
                               const std::string& options = "") {
    put("a", inputs);
    put("b", targets);
    return build<Dataset>("type: npy\ninputs: " + images_ + "\ntargets: " + labels_ + "\n" +
                          options);
  }

  /// A separate file: datasets made earlier keep theirs.
  void put(const std::string& name, const std::string& content) {
    std::filesystem::remove(folder_.path(name));
    folder_.write(name, content);
  }

  TempFolder folder_;
  const std::string images_ = folder_.path("a");
  const std::string labels_ = folder_.path("b");
};

}  // namespace accel
