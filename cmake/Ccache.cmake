# ccache answers a repeated compile in 0.1 s; use it when it is there.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness it never answers for a file that has a precompiled header. By preprocessed
  # text it would answer with a precompiled header of another comment, which GCC refuses later: depend
  # mode compares the included files.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
endif()
