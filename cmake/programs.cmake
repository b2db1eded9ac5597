# headroom_programs(FOLDER LIBRARY): every FOLDER/x.c becomes the program FOLDER/x in the build folder, linked with
# LIBRARY.  The targets `examples`, `benches` and `tools` build them; `all` does where tests are built, so that they stay whole
# (benchmarks not under a sanitizer, where nobody runs them).
function(headroom_programs folder library)
  set(all ${folder})
  if(folder STREQUAL bench)
    set(all benches)
  endif()
  if(HEADROOM_TESTS AND NOT (HEADROOM_SANITIZE AND folder STREQUAL bench))
    add_custom_target(${all} ALL)
  else()
    add_custom_target(${all})
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.c)
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${folder}_${name} EXCLUDE_FROM_ALL ${file})
    set_target_properties(${folder}_${name} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
    target_link_libraries(${folder}_${name} PRIVATE ${library} Threads::Threads m)
    add_dependencies(${all} ${folder}_${name})
  endforeach()
endfunction()
