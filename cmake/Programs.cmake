# --- pjrt: what its tests need besides the library -------------------------------------------------------------
if(TARGET dendrite_pjrt_test)
  target_include_directories(dendrite_pjrt_test SYSTEM PRIVATE ${DENDRITE_FFI_INCLUDE})
endif()
# --- end of pjrt -----------------------------------------------------------------------------------------------
