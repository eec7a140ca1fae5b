# The executable, and what `cmake --install` copies of it: the component "runtime". It runs from any folder,
# with nothing but the C and C++ runtime libraries of the machine.
add_executable(accel-run ${CMAKE_SOURCE_DIR}/runner/main.cpp ${CMAKE_SOURCE_DIR}/runner/torch_registration.cpp
  ${ACCEL_STATIC_PLUGINS})
foreach(layer ${ACCEL_TRAIN_LAYERS} compat compat_checkpoints startup draft launch editor fetch report
    sweep submit weight_placement plugin plugin_described plan cli)
  if(TARGET accel_${layer})
    target_link_libraries(accel-run PRIVATE accel_${layer})
  endif()
endforeach()
target_link_libraries(accel-run PRIVATE torch)
if(ACCEL_STATIC_PLUGINS)
  target_compile_definitions(accel-run PRIVATE ACCEL_HAS_STATIC_PLUGINS=true)
endif()
set_target_properties(accel-run PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  UNITY_BUILD OFF
  BUILD_RPATH "$ORIGIN/lib/accel-run-stubs;$ORIGIN/lib/accel-run;$ORIGIN/lib"
  INSTALL_RPATH "$ORIGIN/../lib/accel-run-stubs;$ORIGIN/../lib/accel-run")
foreach(part accel_cuda accel_cuda_graph accel_nccl accel_arrow)
  if(TARGET ${part})
    add_dependencies(accel-run ${part})
  endif()
endforeach()
accel_take_plugins(accel-run)
include(StubLibraries)

install(TARGETS accel-run RUNTIME DESTINATION bin)
install(FILES ${ACCEL_TORCH_LIBRARIES} DESTINATION lib/accel-run)
install(FILES ${ACCEL_TORCH_CUDA_LIBRARIES} DESTINATION lib/accel-run COMPONENT cuda)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/recipes DESTINATION share/accel-run)
