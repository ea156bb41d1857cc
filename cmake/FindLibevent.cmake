# Finds libevent: the target libevent::core always, libevent::extra (evhttp and the like) where it
# is installed. The targets have the names that libevent's own CMake package gives them, so that
# this package, which only its builds with CMake install, serves as well.

include("${CMAKE_CURRENT_LIST_DIR}/EvzmqFind.cmake")
include(FindPackageHandleStandardArgs)

evzmq_find_c_library(libevent::core OUT LIBEVENT_CORE
  PKGCONFIG libevent_core libevent
  HEADER event2/event.h
  LIBRARY event_core event
  PACKAGE Libevent)
evzmq_find_c_library(libevent::extra OUT LIBEVENT_EXTRA
  PKGCONFIG libevent_extra libevent
  HEADER event2/http.h
  LIBRARY event_extra event)

# The configuration header is per architecture on some systems, so it is the preprocessor's to find:
# only the plain place is read here, and pkg-config's word is taken where there is nothing.
set(Libevent_VERSION "")
file(GLOB _libevent_config
  "${LIBEVENT_CORE_INCLUDE_DIR}/event2/event-config.h"
  "${LIBEVENT_CORE_INCLUDE_DIR}/*/event2/event-config.h")
if(_libevent_config)
  list(GET _libevent_config 0 _libevent_config)
  file(STRINGS "${_libevent_config}" _libevent_line REGEX "define EVENT__VERSION ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" Libevent_VERSION "${_libevent_line}")
endif()
if(NOT Libevent_VERSION AND PC_LIBEVENT_CORE_VERSION)
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" Libevent_VERSION "${PC_LIBEVENT_CORE_VERSION}")
endif()

find_package_handle_standard_args(Libevent
  REQUIRED_VARS LIBEVENT_CORE_LIBRARY LIBEVENT_CORE_INCLUDE_DIR
  VERSION_VAR Libevent_VERSION)
