# Finds jansson: the target Jansson::jansson.

include("${CMAKE_CURRENT_LIST_DIR}/EvzmqFind.cmake")
include(FindPackageHandleStandardArgs)

evzmq_find_c_library(Jansson::jansson OUT JANSSON
  PKGCONFIG jansson
  HEADER jansson.h
  LIBRARY jansson)

find_package_handle_standard_args(Jansson
  REQUIRED_VARS JANSSON_LIBRARY JANSSON_INCLUDE_DIR)
