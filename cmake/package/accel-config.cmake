# find_package(accel): another name of find_package(accel-run COMPONENTS library), kept for projects that
# use it.
include(CMakeFindDependencyMacro)
find_dependency(accel-run COMPONENTS library PATHS ${CMAKE_CURRENT_LIST_DIR}/../accel-run NO_DEFAULT_PATH)
