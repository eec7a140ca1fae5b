# Everything the build takes from outside. All but libtorch are Debian/Ubuntu packages.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)

# toml++ aborts on some bad input unless its assertions are off, and that must not depend on the
# build type.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
add_library(tomlplusplus INTERFACE)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})
target_compile_definitions(tomlplusplus INTERFACE "TOML_ASSERT(x)=static_cast<void>(0)")

find_path(YAML_CPP_INCLUDE_DIR yaml-cpp/yaml.h REQUIRED)
find_library(YAML_CPP_LIBRARY NAMES libyaml-cpp.a yaml-cpp REQUIRED)
add_library(yaml_cpp INTERFACE)
target_include_directories(yaml_cpp SYSTEM INTERFACE ${YAML_CPP_INCLUDE_DIR})
target_link_libraries(yaml_cpp INTERFACE ${YAML_CPP_LIBRARY})

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)

if(ACCEL_TORCH)
  include(Torch)
endif()
if(ACCEL_TESTS)
  find_package(GTest REQUIRED)
endif()
