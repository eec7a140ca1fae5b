# The executable, and the folder that `cmake --install` makes: it runs wherever it is moved to, with
# nothing but the C and C++ runtime libraries of the machine.
add_executable(accel-run ${CMAKE_SOURCE_DIR}/runner/main.cpp ${ACCEL_STATIC_PLUGINS})
foreach(layer core kernels data models formats tokenizers optim precision tasks metrics callbacks checkpoint track report sweep editor importers fetch launch dist plugin job loop plan cli)
  if(TARGET accel_${layer})
    target_link_libraries(accel-run PRIVATE accel_${layer})
  endif()
endforeach()
target_link_libraries(accel-run PRIVATE torch)
set_target_properties(accel-run PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  UNITY_BUILD OFF
  BUILD_RPATH "$ORIGIN/lib/accel-run-stand-in;$ORIGIN/lib/accel-run;$ORIGIN/lib"
  INSTALL_RPATH "$ORIGIN/../lib/accel-run-stand-in;$ORIGIN/../lib/accel-run")
foreach(part accel_cuda accel_arrow)
  if(TARGET ${part})
    add_dependencies(accel-run ${part})
  endif()
endforeach()
accel_take_plugins(accel-run)
include(StandIn)

install(TARGETS accel-run RUNTIME DESTINATION bin)
install(FILES ${ACCEL_TORCH_LIBRARIES} DESTINATION lib/accel-run)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/recipes ${CMAKE_SOURCE_DIR}/plugins
  DESTINATION share/accel-run PATTERN CMakeLists.txt EXCLUDE PATTERN "*.so*" EXCLUDE)
