#include "runner/formats/zstd.h"

#include <dlfcn.h>

#include "core/error.h"

namespace accel {
namespace {

/// The few functions that are wanted, as zstd.h declares them.
struct Zstd {
  size_t (*decompress)(void* to, size_t room, const void* from, size_t size) = nullptr;
  unsigned (*is_error)(size_t code) = nullptr;
  const char* (*error_name)(size_t code) = nullptr;
};

Zstd load_zstd(const std::string& name) {
  void* const library = ::dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed
  Zstd out;
  const auto find = [&](const char* symbol, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        library ? ::dlsym(library, symbol) : nullptr);
    return function != nullptr;
  };
  if (find("ZSTD_decompress", out.decompress) && find("ZSTD_isError", out.is_error) &&
      find("ZSTD_getErrorName", out.error_name)) {
    return out;
  }
  throw DataError("'" + name + "' is compressed by zstd, and libzstd.so.1 cannot be loaded",
                  "install the package libzstd1");
}

}  // namespace

std::vector<std::byte> unzstd(std::span<const std::byte> packed, size_t size,
                              const std::string& name) {
  const Zstd zstd = load_zstd(name);
  std::vector<std::byte> out(size);
  const size_t made = zstd.decompress(out.data(), out.size(), packed.data(), packed.size());
  if (zstd.is_error(made)) {
    throw DataError("'" + name + "' is damaged: " + std::string(zstd.error_name(made)));
  }
  if (made != size) {
    throw DataError("'" + name + "' unpacks to " + std::to_string(made) + " bytes, not to " +
                    std::to_string(size));
  }
  return out;
}

}  // namespace accel
