# The program prints its own man pages and completion scripts, so that they say what it does: build/man/*.1,
# build/completion/headroom.bash and build/completion/_headroom.
set(reference_stamp ${CMAKE_BINARY_DIR}/man/.stamp)
add_custom_command(OUTPUT ${reference_stamp}
  COMMAND ${CMAKE_COMMAND} -E rm -rf man completion
  COMMAND ${CMAKE_COMMAND} -E make_directory man completion
  COMMAND headroom_cli man --dir man
  COMMAND headroom_cli completion bash > completion/headroom.bash
  COMMAND headroom_cli completion zsh > completion/_headroom
  COMMAND ${CMAKE_COMMAND} -E touch ${reference_stamp}
  DEPENDS headroom_cli
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  COMMENT "Printing man pages and completions"
  VERBATIM)
add_custom_target(headroom_reference ALL DEPENDS ${reference_stamp})
