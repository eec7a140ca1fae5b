// Fingerprints of datasets, by which a resumed run detects changed data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace accel {

/// Hash of a dataset's content and options. Independent of paths and file times: a moved or copied
/// dataset keeps its fingerprint.
class Fingerprint {
 public:
  Fingerprint& add(std::string_view text);
  Fingerprint& add(int64_t number);
  /// The whole content up to 16 MiB; of longer content its size and 256 evenly spaced blocks.
  Fingerprint& add_content(std::span<const std::byte> content);

  /// 16 hexadecimal digits.
  std::string text() const;
  uint64_t value() const { return hash_; }

 private:
  void mix(const void* data, size_t size);

  uint64_t hash_ = 0;
};

}  // namespace accel
