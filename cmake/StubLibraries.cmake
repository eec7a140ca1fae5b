# Stub libraries in place of libtorch, so that verbs which need none of it start at once: runner/startup/lazy_torch.h.
# They lie in lib/accel-run-stubs and libtorch in lib/accel-run, beside or above the executable.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(stub_libraries ${CMAKE_BINARY_DIR}/lib/accel-run-stubs)
file(MAKE_DIRECTORY ${stub_libraries})
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
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/make_stub_library.py
      $<TARGET_FILE:accel-run> ${TORCH_DIR}/lib/${library} ${stub_libraries}/${library}.s
      ${runtime_libraries}
    COMMAND ${CMAKE_C_COMPILER} -shared -fPIC -O1 -Wl,-soname,${library}
      "-DACCEL_SYMBOLS=\"${stub_libraries}/${library}.s\"" -o ${stub_libraries}/${library}
      ${CMAKE_SOURCE_DIR}/runner/startup/stub_library.c
    VERBATIM)
  install(FILES ${stub_libraries}/${library} DESTINATION lib/accel-run-stubs)
endforeach()
