# headroom_embed(OUT GLOB...): every file NAME.cu becomes `const hri_gpu_source hri_cu_NAME` in gen/cu_NAME.c, after the
# text of the prelude, of FIRST_stats.cuh, FIRST being the first word of NAME, and of NAME.cuh, without _grad, _sum and _bits, with _tiles, with what is left without _deep, _pairs and _wide, and as it is, where there is one; OUT gets the list of those files.  Kernels are
# text in the library: the machine that runs them compiles them.
function(headroom_embed out)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(prelude ${CMAKE_CURRENT_SOURCE_DIR}/src/ops/cuda/prelude.cuh)
  set(script ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed.awk)
  set(made "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    set(path ${CMAKE_BINARY_DIR}/gen/cu_${name}.c)
    set(before ${prelude})
    string(REGEX REPLACE "_(grad|sum|bits|bits_deep|bits_pairs|bits_wide)$" "" stem ${name})
    string(REGEX REPLACE "_(deep|pairs|wide)$" "" shared ${name})
    string(REGEX REPLACE "_.*" "" first ${name})
    set(headers ${first}_stats ${stem} ${stem}_tiles ${shared} ${name})
    list(REMOVE_DUPLICATES headers)
    foreach(header ${headers})
      if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/src/ops/cuda/${header}.cuh)
        list(APPEND before ${CMAKE_CURRENT_SOURCE_DIR}/src/ops/cuda/${header}.cuh)
      endif()
    endforeach()
    add_custom_command(OUTPUT ${path}
      COMMAND awk -v name=${name} -f ${script} ${before} ${file} > ${path}
      DEPENDS ${before} ${file} ${script} VERBATIM)
    list(APPEND made ${path})
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()
