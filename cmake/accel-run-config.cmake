# find_package(accel-run): accel_add_plugin() for projects of their own. Works from an installed tree
# and from <build>/lib/cmake/accel-run alike.
get_filename_component(accel_root ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
set(ACCEL_SDK_DIR ${accel_root}/include/accel)
set(ACCEL_TORCH_INCLUDE ${accel_root}/include/accel-torch
  ${accel_root}/include/accel-torch/torch/csrc/api/include)
find_program(ACCEL_RUN accel-run PATHS ${accel_root}/bin ${accel_root} NO_DEFAULT_PATH REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/AddPlugin.cmake)
