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

# headroom_kernels(BACKEND GLOB): the kernels of a back end that stand beside the ops.  A file x.c that GLOB finds may have
# one `const hri_kernel hri_kernel_BACKEND_x`; this writes gen/kernels_BACKEND_list.c with hri_kernels_BACKEND_list[] and sets
# kernels_BACKEND_list to its path.  The names are weak: an op without a kernel there has NULL.
function(headroom_kernels backend glob)
  file(GLOB files CONFIGURE_DEPENDS ${glob})
  set(externs "")
  set(entries "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    string(APPEND externs "extern const hri_kernel hri_kernel_${backend}_${name} __attribute__((weak));\n")
    string(APPEND entries "    {\"${name}\", &hri_kernel_${backend}_${name}},\n")
  endforeach()
  set(path ${CMAKE_BINARY_DIR}/gen/kernels_${backend}_list.c)
  file(CONFIGURE OUTPUT ${path} @ONLY CONTENT
"#include <stddef.h>
#include \"device/kernel.h\"
extern const hri_kernel_entry hri_kernels_@backend@_list[];
@externs@const hri_kernel_entry hri_kernels_@backend@_list[] = {
@entries@    {NULL, NULL},
};
")
  set(kernels_${backend}_list ${path} PARENT_SCOPE)
endfunction()
