# accel_add_plugin(<target> <source>...): one plugin, <target>.so. From the build tree and from an
# installed accel-run alike; ACCEL_SDK_DIR and ACCEL_TORCH_INCLUDE are set by either.
function(accel_add_plugin target)
  add_library(${target} MODULE ${ARGN} ${ACCEL_SDK_DIR}/plugin_entry.cpp)
  set_target_properties(${target} PROPERTIES
    PREFIX "" CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF UNITY_BUILD OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} PRIVATE ${ACCEL_SDK_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${ACCEL_TORCH_INCLUDE})
  # What it takes from libtorch and from accel-run is there when it is loaded.
endfunction()
