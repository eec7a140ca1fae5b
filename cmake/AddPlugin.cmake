# accel_add_plugin(<target> [MANIFEST <plugin.toml>] <source>...): one plugin, <target>.so, and with
# MANIFEST its <target>.so.toml. For accel-run's own build and for projects that find_package() it:
# ACCEL_SDK_DIR, ACCEL_TORCH_INCLUDE and ACCEL_RUN are set by either.
function(accel_add_plugin target)
  cmake_parse_arguments(ARG "" "MANIFEST" "" ${ARGN})
  add_library(${target} MODULE ${ARG_UNPARSED_ARGUMENTS} ${ACCEL_SDK_DIR}/plugin_entry.cpp)
  # What it takes from libtorch and from accel-run is there when it is loaded.
  set_target_properties(${target} PROPERTIES
    PREFIX "" CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF UNITY_BUILD OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} PRIVATE ${ACCEL_SDK_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${ACCEL_TORCH_INCLUDE})
  if(TARGET write_sdk_digest)
    add_dependencies(${target} write_sdk_digest)
  endif()
  if(ARG_MANIFEST)
    get_filename_component(manifest ${ARG_MANIFEST} ABSOLUTE)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${manifest})
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${ACCEL_RUN} plugin describe $<TARGET_FILE:${target}> ${manifest} VERBATIM)
  endif()
endfunction()
