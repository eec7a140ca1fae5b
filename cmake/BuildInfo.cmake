# Compiles the answer of core/base/build_info.h into core, which names the commit the tree was at when it was built.
set(torch_version "")
set(torch_version_header ${TORCH_DIR}/include/torch/headeronly/version.h)
if(ACCEL_TORCH AND EXISTS ${torch_version_header})
  file(STRINGS ${torch_version_header} numbers REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" numbers "${numbers}")
  string(REPLACE ";" "." torch_version "${numbers}")
endif()

set(build_info ${CMAKE_BINARY_DIR}/generated/build_info.cpp)
add_custom_target(write_build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DOUTPUT=${build_info}
    -DVERSION=${PROJECT_VERSION} -DTORCH_VERSION=${torch_version}
    -P ${CMAKE_SOURCE_DIR}/cmake/WriteBuildInfo.cmake
  BYPRODUCTS ${build_info}
  COMMENT "")
target_sources(accel_core PRIVATE ${build_info})
add_dependencies(accel_core write_build_info)
