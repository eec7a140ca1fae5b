# <build>/generated/package.json: what tools/dist.py writes into the packages.
string(REGEX MATCH "^[0-9]+" compiler_major "${CMAKE_CXX_COMPILER_VERSION}")
string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/package.json CONTENT [[{
  "version": "@PROJECT_VERSION@",
  "processor": "@processor@",
  "compiler": "@CMAKE_CXX_COMPILER_ID@ @compiler_major@",
  "torch": "@torch_version@",
  "torch_dir": "@TORCH_DIR@"
}
]] @ONLY)
