# libtorch as IMPORTED targets of our own: find_package(Torch) demands a CUDA toolkit for the wheel.
if(NOT TORCH_DIR AND DEFINED ENV{TORCH_DIR})
  set(TORCH_DIR $ENV{TORCH_DIR})
endif()
if(NOT TORCH_DIR)
  set(cache_home "$ENV{XDG_CACHE_HOME}")
  if(NOT cache_home)
    set(cache_home "$ENV{HOME}/.cache")
  endif()
  set(TORCH_DIR "${cache_home}/accel-run/libtorch-2.11.0")
endif()
set(TORCH_DIR ${TORCH_DIR} CACHE PATH "An unpacked libtorch: include/ and lib/")
if(NOT EXISTS ${TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR
    "no libtorch in '${TORCH_DIR}': run 'make build', or pass TORCH_DIR=<unpacked libtorch>")
endif()

add_library(torch_cpu SHARED IMPORTED)
set_target_properties(torch_cpu PROPERTIES
  IMPORTED_LOCATION ${TORCH_DIR}/lib/libtorch_cpu.so
  INTERFACE_INCLUDE_DIRECTORIES
    "${TORCH_DIR}/include;${TORCH_DIR}/include/torch/csrc/api/include"
  INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1")
add_library(torch_c10 SHARED IMPORTED)
set_target_properties(torch_c10 PROPERTIES IMPORTED_LOCATION ${TORCH_DIR}/lib/libc10.so)
# The wheel's libraries name CUDA ones that only a GPU machine has; the CPU never calls them.
add_library(torch INTERFACE)
target_link_libraries(torch INTERFACE torch_cpu torch_c10)
target_link_options(torch INTERFACE -Wl,--allow-shlib-undefined)
# The OpenMP whose threads libtorch computes with, for our loops too: a second one has others.
add_library(torch_openmp INTERFACE)
if(EXISTS ${TORCH_DIR}/lib/libgomp.so.1)
  target_link_libraries(torch_openmp INTERFACE ${TORCH_DIR}/lib/libgomp.so.1)
else()
  target_link_options(torch_openmp INTERFACE -fopenmp)
endif()

# What a CPU run loads: an installed tree brings these along. An own libtorch may lack the last three.
set(ACCEL_TORCH_LIBRARIES)
foreach(library libtorch_cpu.so libc10.so libgomp.so.1 libcudart.so.13 libcupti.so.13)
  if(EXISTS ${TORCH_DIR}/lib/${library})
    list(APPEND ACCEL_TORCH_LIBRARIES ${TORCH_DIR}/lib/${library})
  endif()
endforeach()
# After `tools/bootstrap.sh cuda` there is all that a GPU takes.
set(ACCEL_TORCH_CUDA_LIBRARIES)
if(EXISTS ${TORCH_DIR}/cuda_pins.txt)
  file(GLOB ACCEL_TORCH_CUDA_LIBRARIES ${TORCH_DIR}/lib/*.so*)
  list(REMOVE_ITEM ACCEL_TORCH_CUDA_LIBRARIES ${ACCEL_TORCH_LIBRARIES})
endif()
