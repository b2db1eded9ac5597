# What `make install` puts where: the program, both libraries, the public headers, headroom.pc, the CMake package, man
# pages, completions and the documentation.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headroom)

install(TARGETS headroom EXPORT headroom)
install(TARGETS headroom_static EXPORT headroom_static)
if(TARGET headroom_cli)
  install(TARGETS headroom_cli)
endif()
install(DIRECTORY include/headroom DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# What `headroom run` loads into programs; found from the program's own place.
install(TARGETS headroom_run LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

list(JOIN headroom_modules " " headroom_modules_text)
configure_file(cmake/headroom.pc.in ${CMAKE_BINARY_DIR}/headroom.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/headroom.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(cmake/headroomConfig.cmake.in ${CMAKE_BINARY_DIR}/headroomConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/headroomConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/headroomConfig.cmake ${CMAKE_BINARY_DIR}/headroomConfigVersion.cmake
  DESTINATION ${package_dir})
foreach(set headroom headroom_static)
  install(EXPORT ${set} FILE ${set}Targets.cmake NAMESPACE headroom:: DESTINATION ${package_dir})
endforeach()

# The program writes its own pages and completions while it is built; whatever lies there is taken.
install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL
  FILES_MATCHING PATTERN "*.1")
install(FILES ${CMAKE_BINARY_DIR}/completion/headroom.bash OPTIONAL RENAME headroom
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/completion/_headroom OPTIONAL
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md"
  PATTERN "*.svg" PATTERN "*.png")
