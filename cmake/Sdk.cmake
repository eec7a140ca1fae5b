# What plugins are compiled against: <build>/include/accel and, installed, include/accel. Headers of
# core that declare components, and one that has their digest: a plugin is loaded only by an
# accel-run that was built with the same.
set(pending api/block api/callback api/dataset api/input_path api/metric api/model api/optimizer api/plugin_abi
  api/reward api/schedule api/targets api/task api/tracker base/log recipe/registry)
set(ACCEL_SDK_HEADERS)
while(pending) # those headers and all that they include
  list(POP_FRONT pending name)
  set(header ${CMAKE_SOURCE_DIR}/core/${name}.h)
  if(NOT header IN_LIST ACCEL_SDK_HEADERS)
    list(APPEND ACCEL_SDK_HEADERS ${header})
    file(STRINGS ${header} includes REGEX "^#include \"core/.*\\.h\"")
    string(REGEX REPLACE "#include \"core/([a-z_0-9/]+)\\.h\"[^;]*" "\\1" includes "${includes}")
    list(APPEND pending ${includes})
  endif()
endwhile()
list(SORT ACCEL_SDK_HEADERS)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ACCEL_SDK_HEADERS})

set(ACCEL_SDK_DIR ${CMAKE_BINARY_DIR}/include/accel)
foreach(header ${ACCEL_SDK_HEADERS})
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${header})
  get_filename_component(folder ${path} DIRECTORY)
  file(MAKE_DIRECTORY ${ACCEL_SDK_DIR}/${folder})
  file(CREATE_LINK ${header} ${ACCEL_SDK_DIR}/${path} SYMBOLIC)
  if(ACCEL_TORCH)
    install(FILES ${header} DESTINATION include/accel/${folder} COMPONENT plugin-sdk)
  endif()
endforeach()

file(CREATE_LINK ${CMAKE_SOURCE_DIR}/runner/plugin/sdk/plugin_entry.cpp
  ${ACCEL_SDK_DIR}/plugin_entry.cpp SYMBOLIC)

add_custom_command(OUTPUT ${ACCEL_SDK_DIR}/accel_sdk.h
  COMMAND ${CMAKE_COMMAND} "-DHEADERS=${ACCEL_SDK_HEADERS}" -DOUTPUT=${ACCEL_SDK_DIR}/accel_sdk.h
    -P ${CMAKE_SOURCE_DIR}/cmake/WriteSdkDigest.cmake
  DEPENDS ${ACCEL_SDK_HEADERS} ${CMAKE_SOURCE_DIR}/cmake/WriteSdkDigest.cmake
  COMMENT "" VERBATIM)
add_custom_target(write_sdk_digest DEPENDS ${ACCEL_SDK_DIR}/accel_sdk.h)
add_library(accel_sdk INTERFACE)
target_include_directories(accel_sdk SYSTEM INTERFACE ${ACCEL_SDK_DIR})
add_dependencies(accel_sdk write_sdk_digest)

set(ACCEL_TORCH_INCLUDE)
if(ACCEL_TORCH)
  set(ACCEL_TORCH_INCLUDE ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
  file(CREATE_LINK ${TORCH_DIR}/include ${CMAKE_BINARY_DIR}/include/accel-torch SYMBOLIC)
endif()
include(AddPlugin)

# What find_package(accel-run) reads, in the build tree too; cmake/package/ has the files.
set(package lib/cmake/accel-run)
file(COPY ${CMAKE_SOURCE_DIR}/cmake/package/accel-run-config.cmake ${CMAKE_SOURCE_DIR}/cmake/AddPlugin.cmake
  DESTINATION ${CMAKE_BINARY_DIR}/${package})
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/${package}/accel-run-config-version.cmake
  COMPATIBILITY ExactVersion)

# accel_take_plugins(<executable>): exports to plugins what they may use, and nothing else.
function(accel_take_plugins target)
  target_link_options(${target} PRIVATE
    -Wl,--dynamic-list=${CMAKE_SOURCE_DIR}/cmake/plugin_exports.txt)
  set_property(TARGET ${target} APPEND PROPERTY
    LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/plugin_exports.txt)
endfunction()

# The component "plugin-sdk", with the headers of the libtorch that the executable was built with. The
# package itself is part of "library" too.
if(ACCEL_TORCH)
  install(FILES ${ACCEL_SDK_DIR}/accel_sdk.h
    ${CMAKE_SOURCE_DIR}/runner/plugin/sdk/plugin_entry.cpp
    DESTINATION include/accel COMPONENT plugin-sdk)
  install(DIRECTORY ${TORCH_DIR}/include/ DESTINATION include/accel-torch COMPONENT plugin-sdk)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/plugins DESTINATION share/accel-run COMPONENT plugin-sdk
    PATTERN CMakeLists.txt EXCLUDE PATTERN "*.so*" EXCLUDE)
  foreach(component plugin-sdk library)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/${package}/ DESTINATION ${package} COMPONENT ${component}
      PATTERN built-with.cmake EXCLUDE)
  endforeach()
endif()
