# Stand-ins for libtorch, so that verbs which need none of it start at once: runner/cli/lazy_torch.h.
# They lie in lib/accel-run-stand-in and libtorch in lib/accel-run, beside or above the executable.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(stand_ins ${CMAKE_BINARY_DIR}/lib/accel-run-stand-in)
file(MAKE_DIRECTORY ${stand_ins})
file(CREATE_LINK ${TORCH_DIR}/lib ${CMAKE_BINARY_DIR}/lib/accel-run SYMBOLIC)

set(runtime_libraries)
foreach(library libstdc++.so.6 libgcc_s.so.1 libm.so.6 libc.so.6)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND runtime_libraries ${path})
endforeach()

# After each link, because the executable decides which names there are.
foreach(library libtorch_cpu.so libc10.so)
  add_custom_command(TARGET accel-run POST_BUILD
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/make_stand_in.py
      $<TARGET_FILE:accel-run> ${TORCH_DIR}/lib/${library} ${stand_ins}/${library}.s
      ${runtime_libraries}
    COMMAND ${CMAKE_C_COMPILER} -shared -fPIC -O1 -Wl,-soname,${library}
      "-DACCEL_SYMBOLS=\"${stand_ins}/${library}.s\"" -o ${stand_ins}/${library}
      ${CMAKE_SOURCE_DIR}/runner/cli/stand_in.c
    VERBATIM)
  install(FILES ${stand_ins}/${library} DESTINATION lib/accel-run-stand-in)
endforeach()
