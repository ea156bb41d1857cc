# Finds cmocka: the target Cmocka::cmocka.

include("${CMAKE_CURRENT_LIST_DIR}/EvzmqFind.cmake")
include(FindPackageHandleStandardArgs)

evzmq_find_c_library(Cmocka::cmocka OUT CMOCKA
  PKGCONFIG cmocka
  HEADER cmocka.h
  LIBRARY cmocka)

find_package_handle_standard_args(Cmocka
  REQUIRED_VARS CMOCKA_LIBRARY CMOCKA_INCLUDE_DIR)
