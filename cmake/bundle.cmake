# Other libraries inside libheadroom, hidden: what wheels need.  A second visible zlib or libpng in a process with other packages
# is how symbols clash.
#
# Debian's archives are compiled for programs, not for shared libraries.  The only difference that matters is how they reach stdin,
# stdout and stderr, so copies of them get those under names of our own (bundle_streams.c).
find_program(OBJCOPY objcopy REQUIRED)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/bundle)
foreach(module ${headroom_modules})
  string(TOUPPER ${module} name)
  list(GET ${name}_LIBRARIES 0 library)
  find_library(${name}_ARCHIVE NAMES lib${library}.a HINTS ${${name}_LIBRARY_DIRS} REQUIRED)
  set(copy ${CMAKE_BINARY_DIR}/bundle/lib${library}.a)
  execute_process(COMMAND ${OBJCOPY} --redefine-sym stdin=hri_bundle_stdin --redefine-sym stdout=hri_bundle_stdout
    --redefine-sym stderr=hri_bundle_stderr ${${name}_ARCHIVE} ${copy} COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND headroom_needs ${copy})
  include_directories(SYSTEM ${${name}_INCLUDE_DIRS})
endforeach()
set(bundle_sources cmake/bundle_streams.c)
file(WRITE ${CMAKE_BINARY_DIR}/bundle/symbols "{ global: hr_*; local: *; };\n")
set(bundle_options -Wl,--version-script=${CMAKE_BINARY_DIR}/bundle/symbols)
add_link_options(-s)
