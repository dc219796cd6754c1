# --- pjrt: plugins for tests and benchmarks, and the comparison of plugins -------------------------------------
if(DENDRITE_BUILD_TESTS)
  add_library(dendrite_fake_pjrt SHARED csrc/testing/fake_plugin/fake_pjrt_plugin.cc csrc/testing/fake_plugin/fake_program.cc)
  add_library(dendrite_shim_pjrt SHARED csrc/testing/shim_plugin/shim_pjrt_plugin.cc)
  target_link_libraries(dendrite_shim_pjrt PRIVATE dendrite_base)
  foreach(plugin dendrite_fake_pjrt dendrite_shim_pjrt)
    target_include_directories(${plugin} PRIVATE ${CMAKE_SOURCE_DIR})
    target_include_directories(${plugin} SYSTEM PRIVATE ${DENDRITE_PJRT_INCLUDE})
    target_compile_options(${plugin} PRIVATE ${DENDRITE_WARNINGS})
    # Beside the static libraries, where the tests' environment looks.
    set_target_properties(${plugin} PROPERTIES LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:dendrite_base>)
    foreach(test dendrite_pjrt_test dendrite_compiler_test dendrite_engine_test)
      if(TARGET ${test})
        add_dependencies(${test} ${plugin})
      endif()
    endforeach()
  endforeach()
  if(TARGET dendrite_pjrt_test)
    target_include_directories(dendrite_pjrt_test SYSTEM PRIVATE ${DENDRITE_FFI_INCLUDE})
  endif()
endif()
if(TARGET dendrite_pjrt)
  add_executable(dendrite-plugin-compare csrc/pjrt/plugin_compare_main.cc)
  target_compile_options(dendrite-plugin-compare PRIVATE ${DENDRITE_WARNINGS})
  target_link_libraries(dendrite-plugin-compare PRIVATE dendrite_pjrt)
endif()
# --- end of pjrt -----------------------------------------------------------------------------------------------

# --- compiler: digest of the lowering's sources, and the compile worker ------------------------------------------
if(TARGET dendrite_compiler)
  # An ingredient of the snippet key: made from the sources at build time, so that nobody has to bump a version.
  file(GLOB lowering_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/tape/*.cc ${CMAKE_SOURCE_DIR}/csrc/tape/*.h
    ${CMAKE_SOURCE_DIR}/csrc/stablehlo/*.cc ${CMAKE_SOURCE_DIR}/csrc/stablehlo/*.h
    ${CMAKE_SOURCE_DIR}/csrc/lowering/*.cc ${CMAKE_SOURCE_DIR}/csrc/lowering/*.h)
  list(FILTER lowering_sources EXCLUDE REGEX "_test\\.cc$")
  set(lowering_digest ${CMAKE_BINARY_DIR}/generated/csrc/compiler/lowering_digest.h)
  # The list travels in a file: it is longer than some command lines may be.
  string(REPLACE ";" "\n" lowering_list "${lowering_sources}")
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/lowering_sources.txt CONTENT "${lowering_list}\n")
  add_custom_command(OUTPUT ${lowering_digest}
    COMMAND ${CMAKE_COMMAND} -DLIST=${CMAKE_BINARY_DIR}/generated/lowering_sources.txt -DROOT=${CMAKE_SOURCE_DIR}
      -DOUTPUT=${lowering_digest} -P ${CMAKE_SOURCE_DIR}/cmake/SourceDigest.cmake
    DEPENDS ${lowering_sources} ${CMAKE_SOURCE_DIR}/cmake/SourceDigest.cmake
      ${CMAKE_BINARY_DIR}/generated/lowering_sources.txt
    VERBATIM)
  target_sources(dendrite_compiler PRIVATE ${lowering_digest})
  target_include_directories(dendrite_compiler PRIVATE ${CMAKE_BINARY_DIR}/generated)

  add_executable(dendrite-compile-worker csrc/compiler/worker_main.cc)
  target_link_libraries(dendrite-compile-worker PRIVATE dendrite_compiler)
  target_include_directories(dendrite-compile-worker SYSTEM PRIVATE ${DENDRITE_FFI_INCLUDE})
  target_compile_options(dendrite-compile-worker PRIVATE ${DENDRITE_WARNINGS})
  set_target_properties(dendrite-compile-worker PROPERTIES RUNTIME_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:dendrite_base>)
  foreach(test dendrite_compiler_test dendrite_engine_test)
    if(TARGET ${test})
      add_dependencies(${test} dendrite-compile-worker)
      # Lowerings register themselves: the linker must not leave them out.
      set_property(TARGET ${test} PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,dendrite_lowering")
    endif()
  endforeach()
endif()
# --- end of compiler -------------------------------------------------------------------------------------------

# --- lowering: the library through which tests/lowering/*.py compare lowerings with PyTorch ----------------------
if(DENDRITE_BUILD_TESTS AND TARGET dendrite_lowering AND TARGET dendrite_pjrt)
  add_library(dendrite_lowering_harness SHARED tests/lowering/lowering_harness.cc)
  target_compile_options(dendrite_lowering_harness PRIVATE ${DENDRITE_WARNINGS})
  target_link_libraries(dendrite_lowering_harness PRIVATE dendrite_pjrt
    $<LINK_LIBRARY:WHOLE_ARCHIVE,dendrite_lowering>)
  if(DENDRITE_TORCH)
    add_test(NAME lowering_values COMMAND ${Python_EXECUTABLE} -m pytest -q --rootdir ${CMAKE_SOURCE_DIR}/tests/lowering
      ${CMAKE_SOURCE_DIR}/tests/lowering WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(lowering_values PROPERTIES LABELS "conformance;slow" ENVIRONMENT
      "DENDRITE_TEST_PLUGIN=${DENDRITE_EMBEDDED_PLUGIN};DENDRITE_LOWERING_HARNESS=$<TARGET_FILE:dendrite_lowering_harness>")
  endif()
endif()
# --- end of lowering -------------------------------------------------------------------------------------------
