// Hash map of integers for innermost loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accel {

/// Maps keys below 2^64 - 1 to values; open addressing.
template <class T>
class FlatMap {
 public:
  explicit FlatMap(size_t count = 0) {
    size_t slots = 16;
    while (slots < count * 2) slots *= 2;
    slots_.resize(slots);
  }

  /// At most `count` keys; a later value replaces an earlier one.
  void insert(uint64_t key, T value) {
    for (size_t at = slot_of(key);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key != kFree && slots_[at].key != key) continue;
      slots_[at] = {key, value};
      return;
    }
  }

  /// Null for a missing key.
  const T* find(uint64_t key) const {
    for (size_t at = slot_of(key);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == key) return &slots_[at].value;
      if (slots_[at].key == kFree) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    T value{};
  };

  size_t slot_of(uint64_t key) const {
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & (slots_.size() - 1);
  }

  std::vector<Slot> slots_;
};

}  // namespace accel
