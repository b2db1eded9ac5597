# headroom_list(KIND PREFIX HEADER GLOB): the folder listing is the list.  For every file x.c that GLOB finds (after a
# leading "<kind>_" is dropped) there is one `const PREFIX PREFIX_x`; this writes gen/KIND_list.c with the array
# PREFIXs[] of their addresses, NULL at the end, and sets KIND_list to its path.  A file that forgets its descriptor
# does not link.
function(headroom_list kind prefix header glob)
  file(GLOB files CONFIGURE_DEPENDS ${glob})
  set(externs "")
  set(entries "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    string(REGEX REPLACE "^${kind}_" "" name ${name})
    string(APPEND externs "extern const ${prefix} ${prefix}_${name};\n")
    string(APPEND entries "    &${prefix}_${name},\n")
  endforeach()
  set(path ${CMAKE_BINARY_DIR}/gen/${kind}_list.c)
  file(CONFIGURE OUTPUT ${path} @ONLY CONTENT
"#include \"@header@\"
@externs@const @prefix@ *const @prefix@s[] = {
@entries@    NULL,
};
")
  set(${kind}_list ${path} PARENT_SCOPE)
endfunction()
