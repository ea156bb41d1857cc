# The target evzmq_guide: the guide and the reference of the public headers as HTML, in guide/html of
# the build directory. Any warning of doxygen fails it, an undocumented declaration among them.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in" "${PROJECT_BINARY_DIR}/guide/Doxyfile" @ONLY)
  add_custom_target(evzmq_guide
    COMMAND Doxygen::doxygen "${PROJECT_BINARY_DIR}/guide/Doxyfile"
    COMMAND ${CMAKE_COMMAND} -E echo "The guide is ${PROJECT_BINARY_DIR}/guide/html/index.html"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    VERBATIM)
else()
  message(STATUS "evzmq_guide is left out: it needs doxygen")
endif()
