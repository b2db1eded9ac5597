# headroom_page(OUT FOLDER): the page that `headroom report --html` writes, as text in the library.  FOLDER has its HTML, its
# style and its scripts, which become three strings; OUT gets the files.
function(headroom_page out folder)
  set(script ${CMAKE_CURRENT_SOURCE_DIR}/cmake/text.awk)
  set(html page.html)
  set(css page.css)
  set(js data.js painter.js draw.js tiles.js panels.js events.js) # in this order, as one script
  set(made "")
  foreach(kind html css js)
    set(sources "")
    foreach(name ${${kind}})
      list(APPEND sources ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${name})
    endforeach()
    set(path ${CMAKE_BINARY_DIR}/gen/page_${kind}.c)
    add_custom_command(OUTPUT ${path} COMMAND awk -v name=hri_page_${kind} -f ${script} ${sources} > ${path}
      DEPENDS ${sources} ${script} VERBATIM)
    list(APPEND made ${path})
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()
