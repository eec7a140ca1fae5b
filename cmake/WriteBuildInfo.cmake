# Run at each build: cmake -DSOURCE_DIR= -DOUTPUT= -DVERSION= -DTORCH_VERSION= -P this file.
# The output is touched only when the commit has changed, so nothing is rebuilt without need.
execute_process(
  COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(COMMIT unknown)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.cpp.in ${OUTPUT} @ONLY)
