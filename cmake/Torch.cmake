# The PyTorch side: one extension module, torch_dendrite/_C, over the torch-free libraries.
execute_process(COMMAND ${Python_EXECUTABLE} -c
  "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parent)"
  OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(APPEND CMAKE_PREFIX_PATH ${torch_dir}/share/cmake)
set(USE_CUDA OFF)
find_package(Torch 2.13 REQUIRED)
find_library(torch_python_library torch_python PATHS ${torch_dir}/lib NO_DEFAULT_PATH REQUIRED)

file(GLOB torch_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/csrc/device/*.cc ${CMAKE_SOURCE_DIR}/csrc/interpreter/*.cc
  ${CMAKE_SOURCE_DIR}/csrc/aten/*.cc ${CMAKE_SOURCE_DIR}/csrc/python/*.cc)
list(FILTER torch_sources EXCLUDE REGEX "_test\\.cc$")

Python_add_library(_C MODULE WITH_SOABI ${torch_sources})
target_compile_options(_C PRIVATE ${DENDRITE_WARNINGS})
# Arithmetic that has to vectorise; without PyTorch's headers.
set_source_files_properties(${CMAKE_SOURCE_DIR}/csrc/interpreter/recurrent_cells.cc PROPERTIES
  COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math" SKIP_PRECOMPILE_HEADERS ON)
# PyTorch's headers do not pass our warnings.
target_include_directories(_C SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS} ${DENDRITE_FFI_INCLUDE})
target_compile_definitions(_C PRIVATE TORCH_EXTENSION_NAME=_C)
target_precompile_headers(_C PRIVATE <torch/extension.h> <vector> <string> <memory>)
target_link_libraries(_C PRIVATE ${TORCH_LIBRARIES} ${torch_python_library} dendrite_engine)
# Lowerings register themselves: nothing refers to their object files.
set_target_properties(_C PROPERTIES LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,dendrite_lowering"
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/torch_dendrite
  INSTALL_RPATH "$ORIGIN/../torch/lib" BUILD_RPATH ${torch_dir}/lib)

# The package finds its compile worker beside its modules.
add_custom_command(TARGET dendrite-compile-worker POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:dendrite-compile-worker> ${CMAKE_SOURCE_DIR}/torch_dendrite/)
add_dependencies(_C dendrite-compile-worker)
install(TARGETS _C LIBRARY DESTINATION torch_dendrite)
install(TARGETS dendrite-compile-worker RUNTIME DESTINATION torch_dendrite)
