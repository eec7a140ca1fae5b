// Writer of pickle.h.
#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

#include "formats/tensors/pickle.h"

namespace accel {
namespace {

class PickleWriter {
 public:
  std::string write(const Value& value, int protocol) {
    out_ = '\x80';
    out_ += static_cast<char>(protocol);
    put(value);
    out_ += '.';
    return std::move(out_);
  }

 private:
  void put(const Value& value) {
    std::visit([this](const auto& data) { put_data(data); }, value.data);
  }

  void put_all(const std::vector<Value>& values) {
    for (const Value& value : values) put(value);
  }

  void put_data(const Value::None&) { out_ += 'N'; }
  void put_data(bool value) { out_ += value ? '\x88' : '\x89'; }

  void put_data(int64_t value) {
    if (value >= 0 && value <= 0xff) {
      out_ += 'K';
      put_little(out_, static_cast<uint8_t>(value));
    } else if (value >= 0 && value <= 0xffff) {
      out_ += 'M';
      put_little(out_, static_cast<uint16_t>(value));
    } else if (value >= std::numeric_limits<int32_t>::min() &&
               value <= std::numeric_limits<int32_t>::max()) {
      out_ += 'J';
      put_little(out_, static_cast<int32_t>(value));
    } else {
      out_ += "\x8a\x08";  // two's complement in 8 bytes
      put_little(out_, value);
    }
  }

  void put_data(double value) {
    out_ += 'G';
    std::string little;
    put_little(little, std::bit_cast<uint64_t>(value));
    out_.append(little.rbegin(), little.rend());
  }

  void put_data(const std::string& text) {
    out_ += 'X';
    put_little(out_, static_cast<uint32_t>(text.size()));
    out_ += text;
  }

  /// Adds items to a list or dict in Python's batches, which keep a reader's stack small.
  template <class T, class Put>
  void put_batches(const std::vector<T>& items, char opcode, Put put_item) {
    constexpr size_t kBatch = 1000;
    size_t i = 0;
    do {
      out_ += '(';
      for (const size_t end = std::min(items.size(), i + kBatch); i < end; ++i) put_item(items[i]);
      out_ += opcode;
    } while (i < items.size());
  }

  void put_data(const Value::List& list) {
    out_ += ']';
    put_batches(list.items, 'e', [this](const Value& item) { put(item); });
  }

  void put_data(const Value::Tuple& tuple) { put_tuple(tuple.items); }

  void put_data(const Value::Dict& dict) {
    out_ += '}';
    put_batches(dict.items, 'u', [this](const std::pair<Value, Value>& item) {
      put(item.first);
      put(item.second);
    });
  }

  void put_data(const Value::Global& global) {
    out_ += 'c' + global.module + '\n' + global.name + '\n';
  }

  void put_data(const Value::Call& call) {
    put_data(call.callable);
    put_tuple(call.arguments);
    if (call.state.empty()) {
      out_ += 'R';
      return;
    }
    out_ += '\x81';  // NEWOBJ: objects with a state are created without __init__
    put(call.state[0]);
    out_ += 'b';
  }

  void put_data(const Value::Persistent& persistent) {
    put_tuple(persistent.id);
    out_ += 'Q';
  }

  void put_data(const Array&) { throw std::invalid_argument("a pickle cannot hold an array"); }

  void put_tuple(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += ')';
      return;
    }
    out_ += '(';
    put_all(items);
    out_ += 't';
  }

  std::string out_;
};

}  // namespace

std::string write_pickle(const Value& value, int protocol) {
  return PickleWriter().write(value, protocol);
}

}  // namespace accel
