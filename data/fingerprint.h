// The short text by which a resumed run knows that its data is still the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace accel {

/// Collects what a dataset is made of. Independent of paths and file times, so that a dataset that
/// was moved or copied keeps its fingerprint.
class Fingerprint {
 public:
  Fingerprint& add(std::string_view text);
  Fingerprint& add(int64_t number);
  /// All of a content up to 16 MiB; of a longer one its size and 256 blocks spread evenly.
  Fingerprint& add_content(std::span<const std::byte> content);

  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  void mix(const void* data, size_t size);

  uint64_t hash_ = 0;
};

}  // namespace accel
