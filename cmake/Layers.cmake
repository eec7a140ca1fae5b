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
  # Compilers have no common macro for it.
  if(ACCEL_SANITIZE MATCHES address)
    target_compile_definitions(accel_flags INTERFACE ACCEL_ASAN)
  elseif(ACCEL_SANITIZE MATCHES thread)
    target_compile_definitions(accel_flags INTERFACE ACCEL_TSAN)
  endif()
endif()

# accel_leave_unoptimized(<target>): for the code of tests, where a third of the compile time was
# optimization.
function(accel_leave_unoptimized target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
endfunction()

include(PrecompiledHeaders)

# Files compiled together in presets with unity builds: headers are most of the work of each.
set(ACCEL_BATCH 12)
# All that a training run takes, for the executable and for tests and benches that run one.
set(ACCEL_TRAIN_LAYERS core formats kernels text checkpoint rendezvous shared_memory pipeline parallel track models data placement recipe
  control optim precision metrics tasks callbacks job loop infer)

# accel_layer(<name> SOURCES ... [LINK ...] [TENSORS | OPERATORS | MODULES])
# What it takes of libtorch: ATen/core/Tensor.h, single operators as well, or torch::nn. But for the
# last, PyTorch's own headers #error on a header that includes every operator.
function(accel_layer name)
  cmake_parse_arguments(ARG "TENSORS;OPERATORS;MODULES" "" "SOURCES;LINK" ${ARGN})
  set(headers contracts)
  foreach(set TENSORS OPERATORS MODULES)
    if(ARG_${set})
      string(TOLOWER ${set} headers)
    endif()
  endforeach()
  set(needs_torch FALSE)
  if(NOT headers STREQUAL contracts)
    set(needs_torch TRUE)
  endif()
  if(needs_torch AND NOT ACCEL_TORCH)
    return()
  endif()
  add_library(accel_${name} OBJECT ${ARG_SOURCES})
  set_target_properties(accel_${name} PROPERTIES ACCEL_TORCH ${needs_torch})
  target_link_libraries(accel_${name} PUBLIC accel_flags ${ARG_LINK})
  if(needs_torch)
    target_link_libraries(accel_${name} PUBLIC torch)
  endif()
  set_target_properties(accel_${name} PROPERTIES UNITY_BUILD_BATCH_SIZE ${ACCEL_BATCH})
  if(headers MATCHES "tensors|operators")
    target_compile_definitions(accel_${name} PRIVATE TORCH_ASSERT_ONLY_METHOD_OPERATORS)
  endif()
  if(NOT name STREQUAL core) # its symbols are visible to plugins, which is another set of flags
    accel_precompiled_headers(accel_${name} ${headers})
  endif()
endfunction()

# accel_compile_quickly(<target>): for setup code, which runs once and is much of templates.
function(accel_compile_quickly target)
  if(NOT TARGET ${target}) # a layer that this configuration leaves out
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
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

# All unit tests; those of code that starts threads, all that the thread sanitizer can find something in;
# and the fuzz targets.
foreach(group unit_tests threads_tests fuzzers)
  add_custom_target(${group})
endforeach()

# accel_test(<name> [THREADS] SOURCES ... LAYERS ... [LINK ...]): left out where a layer is. THREADS: one of
# threads_tests.
function(accel_test name)
  cmake_parse_arguments(ARG "THREADS" "" "SOURCES;LAYERS;LINK" ${ARGN})
  accel_have_layers(buildable ${ARG_LAYERS})
  if(NOT buildable)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE ${ACCEL_BATCH})
  accel_leave_unoptimized(${name})
  accel_link_layers(${name} ${ARG_LAYERS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  set(headers tests)
  foreach(layer ${ARG_LAYERS})
    get_target_property(needs_torch accel_${layer} ACCEL_TORCH)
    if(needs_torch)
      set(headers torch_tests)
    endif()
  endforeach()
  accel_precompiled_headers(${name} ${headers})
  add_dependencies(unit_tests ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit
    ENVIRONMENT "ACCEL_SOURCE_DIR=${CMAKE_SOURCE_DIR};OMP_WAIT_POLICY=passive")
  if(ARG_THREADS)
    set_property(TEST ${name} APPEND PROPERTY LABELS threads)
    add_dependencies(threads_tests ${name})
  endif()
endfunction()

# accel_test_with_avx2(<name>): repeats a test without AVX-512, which most machines do not have.
function(accel_test_with_avx2 name)
  add_test(NAME ${name}_avx2 COMMAND ${name})
  get_test_property(${name} LABELS labels)
  get_test_property(${name} ENVIRONMENT environment)
  set_tests_properties(${name}_avx2 PROPERTIES LABELS "${labels}" ENVIRONMENT
    "${environment};ATEN_CPU_CAPABILITY=avx2;MKL_ENABLE_INSTRUCTIONS=AVX2;ONEDNN_MAX_CPU_ISA=AVX2")
endfunction()

# accel_test_reads_arrow(<name>): lets a test open libaccel_arrow.so, where this configuration builds it.
function(accel_test_reads_arrow name)
  if(NOT TARGET accel_arrow)
    return()
  endif()
  add_dependencies(${name} accel_arrow)
  target_compile_definitions(${name} PRIVATE ACCEL_HAS_ARROW)
  set_target_properties(${name} PROPERTIES BUILD_RPATH $<TARGET_FILE_DIR:accel_arrow>)
  # The sanitizers' libraries call dlopen() on behalf of the test: its RUNPATH is not read for them, its
  # RPATH is.
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
endfunction()

# accel_fuzz(<name> SOURCES ... LAYERS ...): a libFuzzer executable in <build>/fuzzers; its first
# inputs are the files of tests/fuzz/corpus/<name>.
function(accel_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LAYERS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  accel_link_layers(${name} ${ARG_LAYERS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
  add_dependencies(fuzzers ${name})
endfunction()
