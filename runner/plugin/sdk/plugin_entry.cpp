// Entry point of plugins, compiled into each together with its sources.
#include <accel_sdk.h>

#include "core/api/plugin_abi.h"
#include "core/recipe/registry.h"

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#endif

namespace {

#if defined(TORCH_VERSION)
constexpr auto kTorch = TORCH_VERSION;
#else
constexpr auto kTorch = "";
#endif

/// Read from the file before it is loaded.
[[gnu::section(".accel_plugin"), gnu::used]] constexpr accel::PluginAbi kAbi =
    accel::plugin_abi(accel::kSdkDigest, kTorch);

}  // namespace

extern "C" __attribute__((visibility("default"))) void accel_plugin_enter(
    accel::Registry& registry) {
  accel::Registration::enter_all(registry);
}
