// Plugin ABI: the build properties that a plugin and its host must share, as text that is read from
// the plugin's file before any of its code runs.
#pragma once

#include <cstddef>
#include <string_view>
#include <version>

namespace accel {

/// Version of the plugin API; a new one may need changes in the source of plugins.
inline constexpr int kPluginApi = 1;
/// The section of a plugin's file that holds its PluginAbi.
inline constexpr auto kPluginSection = ".accel_plugin";
/// The symbol that a plugin exports: `extern "C" void (accel::Registry&)`, which registers its
/// components.
inline constexpr auto kPluginEntry = "accel_plugin_enter";

/// Lines of "name: value", one per property, padded with zeros.
struct PluginAbi {
  char text[256] = {};
  size_t size = 0;

  constexpr void put(std::string_view more) {
    for (const char c : more) text[size++] = c;  // not a constant expression when it is too long
  }
  constexpr void put(int number) {
    if (number >= 10) put(number / 10);
    text[size++] = static_cast<char>('0' + number % 10);
  }
};

/// The ABI of this translation unit. `headers` is the digest of the SDK's headers, `torch` the
/// version of libtorch.
constexpr PluginAbi plugin_abi(std::string_view headers, std::string_view torch) {
  PluginAbi abi;
  abi.put("plugin API: ");
  abi.put(kPluginApi);
  abi.put("\nheaders: ");
  abi.put(headers);
  abi.put("\nlibtorch: ");
  abi.put(torch.empty() ? "none" : torch);
#if defined(__clang__)
  abi.put("\ncompiler: clang ");
  abi.put(__clang_major__);
#else
  abi.put("\ncompiler: gcc ");
  abi.put(__GNUC__);
#endif
#if defined(_GLIBCXX_RELEASE)
  abi.put("\nC++ library: libstdc++ ");
  abi.put(_GLIBCXX_RELEASE);
  abi.put(_GLIBCXX_USE_CXX11_ABI ? "" : " with old strings");
#if defined(_GLIBCXX_DEBUG)
  abi.put(" with checks");
#endif
#else
  abi.put("\nC++ library: another");
#endif
  abi.put("\n");
  return abi;
}

}  // namespace accel
