# find_package(accel-run [COMPONENTS plugin-sdk library]), from an installed tree or from
# <build>/lib/cmake/accel-run. Without COMPONENTS, those that are installed are found.
#   plugin-sdk  accel_add_plugin() for plugins
#   library     the target accel::accel for programs with a custom loop
# libtorch is TORCH_DIR if that is set, else the installed one, else the one that the library was
# built with.
get_filename_component(accel_root ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
set(accel-run_FOUND TRUE)
set(accel_missing)

if(EXISTS ${accel_root}/include/accel/plugin_entry.cpp)
  set(accel-run_plugin-sdk_FOUND TRUE)
  set(ACCEL_SDK_DIR ${accel_root}/include/accel)
  set(ACCEL_TORCH_INCLUDE ${accel_root}/include/accel-torch
    ${accel_root}/include/accel-torch/torch/csrc/api/include)
  find_program(ACCEL_RUN accel-run PATHS ${accel_root}/bin ${accel_root} NO_DEFAULT_PATH)
  include(${CMAKE_CURRENT_LIST_DIR}/AddPlugin.cmake)
  if(NOT ACCEL_RUN)
    set(accel-run_plugin-sdk_FOUND FALSE)
    list(APPEND accel_missing "no executable accel-run in '${accel_root}/bin'")
  endif()
endif()

# Sets accel_torch_include and accel_torch_lib.
include(${CMAKE_CURRENT_LIST_DIR}/built-with.cmake OPTIONAL)
if(TORCH_DIR)
  set(accel_torch_include ${TORCH_DIR}/include)
  set(accel_torch_lib ${TORCH_DIR}/lib)
elseif(EXISTS ${accel_root}/lib/accel-run/libtorch_cpu.so AND EXISTS ${accel_root}/include/accel-torch)
  set(accel_torch_include ${accel_root}/include/accel-torch)
  set(accel_torch_lib ${accel_root}/lib/accel-run)
else()
  set(accel_torch_include ${ACCEL_BUILT_WITH_TORCH}/include)
  set(accel_torch_lib ${ACCEL_BUILT_WITH_TORCH}/lib)
endif()

if(EXISTS ${accel_root}/lib/libaccel.a)
  set(accel-run_library_FOUND TRUE)
  if(NOT EXISTS ${accel_torch_lib}/libtorch_cpu.so)
    set(accel-run_library_FOUND FALSE)
    list(APPEND accel_missing
      "no libtorch in '${accel_torch_lib}': pass TORCH_DIR=<unpacked libtorch>")
  endif()
  set(accel_links)
  foreach(name yaml-cpp pcre2-8 jpeg png z)
    find_library(ACCEL_LIBRARY_${name} ${name})
    mark_as_advanced(ACCEL_LIBRARY_${name})
    if(NOT ACCEL_LIBRARY_${name})
      set(accel-run_library_FOUND FALSE)
      list(APPEND accel_missing "the component library links lib${name}, which is not installed")
    else()
      list(APPEND accel_links ${ACCEL_LIBRARY_${name}})
    endif()
  endforeach()
endif()

if(accel-run_library_FOUND AND NOT TARGET accel::accel)
  find_package(Threads REQUIRED)
  set(accel_openmp -fopenmp) # libtorch's, where it has one
  if(EXISTS ${accel_torch_lib}/libgomp.so.1)
    set(accel_openmp ${accel_torch_lib}/libgomp.so.1)
  endif()
  add_library(accel::accel INTERFACE IMPORTED)
  target_compile_features(accel::accel INTERFACE cxx_std_20)
  target_compile_definitions(accel::accel INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
  target_include_directories(accel::accel INTERFACE ${accel_root}/include/accel-run)
  target_include_directories(accel::accel SYSTEM INTERFACE
    ${accel_torch_include} ${accel_torch_include}/torch/csrc/api/include)
  # Whole: components are registered by initializers that nothing refers to.
  target_link_libraries(accel::accel INTERFACE
    -Wl,--whole-archive ${accel_root}/lib/libaccel.a -Wl,--no-whole-archive
    ${accel_torch_lib}/libtorch_cpu.so ${accel_torch_lib}/libc10.so ${accel_openmp}
    -Wl,--allow-shlib-undefined ${accel_links} Threads::Threads ${CMAKE_DL_LIBS})
endif()

foreach(component ${accel-run_FIND_COMPONENTS})
  if(accel-run_FIND_REQUIRED_${component} AND NOT accel-run_${component}_FOUND)
    set(accel-run_FOUND FALSE)
    list(APPEND accel_missing "the component '${component}' is not installed in '${accel_root}'")
  endif()
endforeach()
list(JOIN accel_missing "; " accel-run_NOT_FOUND_MESSAGE)
if(accel_missing AND accel-run_FOUND AND NOT accel-run_FIND_QUIETLY)
  message(STATUS "accel-run: ${accel-run_NOT_FOUND_MESSAGE}")
endif()
