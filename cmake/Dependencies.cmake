# Everything the build takes from outside. All but libtorch are Debian/Ubuntu packages; static
# libraries come first, so that an installed tree runs on a machine without these packages.
set(shared_first ${CMAKE_FIND_LIBRARY_SUFFIXES})
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_library(YAML_CPP_LIBRARY NAMES yaml-cpp REQUIRED)
find_library(SQLITE3_LIBRARY NAMES sqlite3 REQUIRED)
find_library(PCRE2_LIBRARY NAMES pcre2-8 REQUIRED)
find_library(UTF8PROC_LIBRARY NAMES utf8proc REQUIRED)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${shared_first})
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)

find_path(YAML_CPP_INCLUDE_DIR yaml-cpp/yaml.h REQUIRED)
add_library(yaml_cpp INTERFACE)
target_include_directories(yaml_cpp SYSTEM INTERFACE ${YAML_CPP_INCLUDE_DIR})
target_link_libraries(yaml_cpp INTERFACE ${YAML_CPP_LIBRARY})

# toml++ aborts on some bad input unless its assertions are off, and that must not depend on the
# build type. As an option, because CMake drops definitions that look like a function.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
add_library(tomlplusplus INTERFACE)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})
target_compile_options(tomlplusplus INTERFACE "-DTOML_ASSERT(x)=static_cast<void>(0)")

# Header-only, and included without further settings.
find_path(SPDLOG_INCLUDE_DIR spdlog/spdlog.h REQUIRED)
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

find_path(SQLITE3_INCLUDE_DIR sqlite3.h REQUIRED)
add_library(sqlite3 INTERFACE)
target_include_directories(sqlite3 SYSTEM INTERFACE ${SQLITE3_INCLUDE_DIR})
target_link_libraries(sqlite3 INTERFACE ${SQLITE3_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)

find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
add_library(pcre2 INTERFACE)
target_include_directories(pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE_DIR})
target_link_libraries(pcre2 INTERFACE ${PCRE2_LIBRARY})

find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
add_library(utf8proc INTERFACE)
target_include_directories(utf8proc SYSTEM INTERFACE ${UTF8PROC_INCLUDE_DIR})
target_link_libraries(utf8proc INTERFACE ${UTF8PROC_LIBRARY})

# Only its headers: the library itself is loaded at run time, when a tracker is_online to a server.
find_path(CURL_INCLUDE_DIR curl/curl.h REQUIRED)
add_library(curl_headers INTERFACE)
target_include_directories(curl_headers SYSTEM INTERFACE ${CURL_INCLUDE_DIR})

if(ACCEL_TORCH)
  include(Torch)
endif()
if(ACCEL_TESTS)
  find_package(GTest REQUIRED)
endif()
