# What nearly every file of a kind of layer includes, parsed once: torch/nn takes 20 s, core 2 s.
# A file still includes all it uses; tests/lint/headers.py compiles each header without these.
set(accel_headers_contracts ${CMAKE_SOURCE_DIR}/core/recipe/registry.h)
set(accel_headers_tensors <ATen/core/Tensor.h> ${accel_headers_contracts})
# Any one operator brings what all of them include.
set(accel_headers_operators <ATen/ops/zeros.h> ${accel_headers_tensors})
set(accel_headers_modules
  <torch/nn/module.h> <torch/nn/modules/batchnorm.h> <torch/nn/modules/container/modulelist.h>
  <torch/nn/modules/conv.h> <torch/nn/modules/embedding.h> <torch/nn/modules/linear.h>
  <torch/nn/modules/normalization.h> ${accel_headers_contracts})

set(accel_headers_tests <gtest/gtest.h> ${accel_headers_contracts})
set(accel_headers_torch_tests <gtest/gtest.h> ${accel_headers_operators})

# accel_precompiled_headers(<target> contracts | tensors | operators | modules | tests | torch_tests)
function(accel_precompiled_headers target set)
  set(source pch_${set})
  if(NOT TARGET ${source})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${source}.cpp CONTENT "")
    add_library(${source} OBJECT ${CMAKE_BINARY_DIR}/generated/${source}.cpp)
    target_link_libraries(${source} PRIVATE accel_flags)
    if(NOT set MATCHES "^(contracts|tests)$")
      target_link_libraries(${source} PRIVATE torch)
    endif()
    if(set MATCHES "^(tensors|operators)$")
      target_compile_definitions(${source} PRIVATE TORCH_ASSERT_ONLY_METHOD_OPERATORS)
    endif()
    if(set MATCHES "tests$")
      target_link_libraries(${source} PRIVATE GTest::gtest_main)
      accel_leave_unoptimized(${source})
    endif()
    target_precompile_headers(${source} PRIVATE ${accel_headers_${set}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${source})
endfunction()
