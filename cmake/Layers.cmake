# One OBJECT library per layer, so that self-registering components are never dropped by the linker,
# and one test binary per layer.

add_library(accel_flags INTERFACE)
target_include_directories(accel_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(accel_flags INTERFACE -Wall -Wextra)
if(ACCEL_WERROR)
  target_compile_options(accel_flags INTERFACE -Werror)
endif()
if(ACCEL_SANITIZE)
  target_compile_options(accel_flags INTERFACE
    -fsanitize=${ACCEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(accel_flags INTERFACE -fsanitize=${ACCEL_SANITIZE})
endif()

# accel_layer(<name> SOURCES ... [LINK ...] [TORCH | TORCH_LIGHT])
# TORCH: may use torch/nn and ATen operators; built as unity files in the release preset.
# TORCH_LIGHT: ATen/core/Tensor.h only; PyTorch's own headers #error on anything heavier.
function(accel_layer name)
  cmake_parse_arguments(ARG "TORCH;TORCH_LIGHT" "" "SOURCES;LINK" ${ARGN})
  if((ARG_TORCH OR ARG_TORCH_LIGHT) AND NOT ACCEL_TORCH)
    return()
  endif()
  add_library(accel_${name} OBJECT ${ARG_SOURCES})
  target_link_libraries(accel_${name} PUBLIC accel_flags ${ARG_LINK})
  if(ARG_TORCH OR ARG_TORCH_LIGHT)
    target_link_libraries(accel_${name} PUBLIC torch)
  endif()
  if(ARG_TORCH_LIGHT)
    target_compile_definitions(accel_${name} PRIVATE TORCH_ASSERT_ONLY_METHOD_OPERATORS)
  endif()
  if(ARG_TORCH)
    set_target_properties(accel_${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  else()
    set_target_properties(accel_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# accel_link_layers(<target> <layer>...): takes the layers with all that they link.
function(accel_link_layers target)
  list(TRANSFORM ARGN PREPEND accel_)
  target_link_libraries(${target} PRIVATE ${ARGN})
endfunction()

# accel_have_layers(<variable> <layer>...): true when this configuration builds all of them.
function(accel_have_layers variable)
  set(${variable} TRUE PARENT_SCOPE)
  foreach(layer ${ARGN})
    if(NOT TARGET accel_${layer})
      set(${variable} FALSE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# accel_test(<name> SOURCES ... LAYERS ... [LINK ...]): left out where a layer is.
function(accel_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LAYERS;LINK" ${ARGN})
  accel_have_layers(buildable ${ARG_LAYERS})
  if(NOT buildable)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  accel_link_layers(${name} ${ARG_LAYERS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit
    ENVIRONMENT "ACCEL_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
endfunction()

# accel_fuzz(<name> SOURCES ... LAYERS ...): a libFuzzer executable in <build>/fuzzers; its first
# inputs are the files of tests/fuzz/corpus/<name>.
function(accel_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LAYERS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  accel_link_layers(${name} ${ARG_LAYERS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
endfunction()
