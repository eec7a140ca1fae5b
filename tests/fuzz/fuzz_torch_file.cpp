// Any bytes taken for a torch file, or for the pickle inside one, are read or refused. The first
// byte says which.
#include <cstddef>
#include <cstdint>
#include <string>

#include "runner/formats/torch_file.h"
#include "runner/formats/zip_store.h"

namespace accel {
namespace {

/// Reads every element, so that a view outside its storage shows.
void touch(const Value& value) {
  volatile unsigned sum = 0;
  if (const auto* array = value.as<Array>()) {
    for (size_t i = 0; i < array->bytes(); ++i) {
      sum = sum + std::to_integer<unsigned>(array->data()[i]);
    }
  } else if (const auto* list = value.as<Value::List>()) {
    for (const Value& item : list->items) touch(item);
  } else if (const auto* tuple = value.as<Value::Tuple>()) {
    for (const Value& item : tuple->items) touch(item);
  } else if (const auto* dict = value.as<Value::Dict>()) {
    for (const auto& [key, item] : dict->items) touch(item);
  }
}

std::string archive_of(ByteSpan pickle) {
  std::string out;
  ZipWriter zip([&out](ByteSpan bytes) { out += as_text(bytes); });
  zip.add("x/data.pkl", pickle);
  zip.add("x/data/0", as_bytes("0123456789abcdef0123456789abcdef"));
  zip.add("x/version", as_bytes("3\n"));
  zip.finish();
  return out;
}

}  // namespace
}  // namespace accel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const accel::ByteSpan bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    if (data[0] == 'p') {
      const std::string archive = accel::archive_of(bytes);
      accel::touch(accel::read_torch_file({accel::as_bytes(archive), nullptr}));
    } else {
      accel::touch(accel::read_torch_file({bytes, nullptr}));
    }
  } catch (const accel::FormatError&) {
  }
  return 0;
}
