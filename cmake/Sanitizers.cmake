# DENDRITE_SANITIZE: flags for every target, and what the tests' environment says (DENDRITE_SANITIZER_ENVIRONMENT). A
# report ends the program, so that no test passes with one. Suppressions are for code that is not ours.
set(DENDRITE_SANITIZER_ENVIRONMENT "")
if(DENDRITE_SANITIZE)
  add_compile_options(-fsanitize=${DENDRITE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DENDRITE_SANITIZE})
  set(suppressions ${CMAKE_SOURCE_DIR}/tools/sanitizers)
  set(DENDRITE_SANITIZER_ENVIRONMENT
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_init_order=1:allocator_may_return_null=1"
    "LSAN_OPTIONS=suppressions=${suppressions}/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=suppressions=${suppressions}/tsan.supp:halt_on_error=1:second_deadlock_stack=1")
endif()
