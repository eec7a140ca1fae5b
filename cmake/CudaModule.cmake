# accel_cuda_module(NAME SOURCE): what takes the headers of CUDA and of PyTorch's CUDA part, as a library that a process
# loads when it computes on a GPU. It needs no libtorch_cuda.so to be linked; that is there before it is loaded. Without
# the headers there is no such target, and a line says so.
function(accel_cuda_module name source)
  if(NOT ACCEL_TORCH)
    return()
  endif()
  find_path(ACCEL_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ${ACCEL_CUDA_HOME} ENV CUDA_HOME /usr/local/cuda/include PATH_SUFFIXES include
    DOC "CUDA's headers")
  find_path(ACCEL_NCCL_INCLUDE nccl.h HINTS ${ACCEL_CUDA_INCLUDE} DOC "NCCL's header")
  # PyTorch's headers include those of cuBLAS, cuSPARSE and cuSOLVER: `tools/bootstrap.sh cuda` brings them.
  find_path(ACCEL_CUBLAS_INCLUDE cublas_v2.h
    HINTS ${ACCEL_CUDA_INCLUDE} ${TORCH_DIR}/cuda_include DOC "The headers of CUDA's libraries")
  set(nccl_header ${TORCH_DIR}/include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)
  if(NOT ACCEL_CUDA_INCLUDE OR NOT ACCEL_NCCL_INCLUDE OR NOT ACCEL_CUBLAS_INCLUDE OR NOT EXISTS ${nccl_header})
    message(STATUS "no headers of CUDA, NCCL or cuBLAS here: no lib${name}.so")
    return()
  endif()
  add_library(${name} MODULE ${source})
  target_link_libraries(${name} PRIVATE accel_flags)
  target_include_directories(${name} SYSTEM PRIVATE
    ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include
    ${ACCEL_CUDA_INCLUDE} ${ACCEL_NCCL_INCLUDE} ${ACCEL_CUBLAS_INCLUDE})
  target_compile_definitions(${name} PRIVATE USE_CUDA USE_DISTRIBUTED USE_C10D_NCCL _GLIBCXX_USE_CXX11_ABI=1)
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib UNITY_BUILD OFF)
  install(TARGETS ${name} LIBRARY DESTINATION lib/accel-run)
endfunction()
