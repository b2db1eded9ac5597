# The ops once more for each level of x86-64 processor: the same sources, compiled for wider vectors.
#
#   v3: AVX2      v4: AVX-512
#
# Each level is one object file with one name, hr_ops_<level>, the list of the ops as hr_ops is; everything else in it is
# local.  Where its code begins and ends has names, too, so that a budget need not count what the processor at hand never runs (base/level.h).
# graph/op_kernel.c takes the kernels of the best level that the processor has.  No multiply-add is fused in any of
# them, so that an op has the same bits at all levels; files that choose for themselves, by function, are compiled once, and
# the levels call that one.  Not under a sanitizer, which looks at the same source as it is.
option(HEADROOM_LEVELS "on x86-64, compile the ops for AVX2 and AVX-512 too" ON)
set(level_objects "")
# The tools of one kit, which may be that of another processor than this machine's.
find_program(OBJCOPY NAMES ${CMAKE_OBJCOPY} objcopy)
string(REGEX REPLACE "objcopy$" "ld" level_linker "${OBJCOPY}")
string(REGEX REPLACE "objcopy$" "objdump" OBJDUMP "${OBJCOPY}")
find_program(LEVEL_LD ${level_linker})
if(HEADROOM_LEVELS AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND NOT HEADROOM_SANITIZE AND OBJCOPY AND LEVEL_LD)
  set(level_flags_v3 -mavx2 -mbmi -mbmi2)
  set(level_flags_v4 ${level_flags_v3} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
    -DHRI_GEMM_WIDE)
  set(level_sources ${kernel_sources})
  list(FILTER level_sources EXCLUDE REGEX "_cuda\\.c$|_kernel\\.c$|/conv_few\\.c$")
  foreach(level v3 v4)
    add_library(headroom_ops_${level} OBJECT ${level_sources} ${op_list})
    target_include_directories(headroom_ops_${level} PRIVATE include src)
    target_compile_options(headroom_ops_${level} PRIVATE -DHRI_LEVEL -ffp-contract=off ${level_flags_${level}})
    set(object ${CMAKE_BINARY_DIR}/ops_${level}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${LEVEL_LD} -r -o ${object}.all $<TARGET_OBJECTS:headroom_ops_${level}>
      COMMAND ${OBJCOPY} --redefine-sym hr_ops=hr_ops_${level} ${object}.all ${object}
      COMMAND ${OBJCOPY} --keep-global-symbol=hr_ops_${level} ${object}
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cmake/level-ends.sh ${OBJCOPY} ${OBJDUMP} ${object} ${level}
      DEPENDS cmake/level-ends.sh headroom_ops_${level} $<TARGET_OBJECTS:headroom_ops_${level}>
      COMMENT "The ops for x86-64-${level}" VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND level_objects ${object})
  endforeach()
  set_source_files_properties(${level_objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_custom_target(headroom_levels DEPENDS ${level_objects})
  set_source_files_properties(src/graph/op_kernel.c src/base/level.c PROPERTIES COMPILE_DEFINITIONS HEADROOM_LEVELS)
endif()
