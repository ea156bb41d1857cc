# Finds the C library of msgpack-c: the target MsgpackC::msgpackc.
#
# It goes by several names. Up to 5.x pkg-config and CMake call it msgpack and the library is
# msgpackc; from 6.0 on pkg-config, CMake and the library all say msgpack-c.

include("${CMAKE_CURRENT_LIST_DIR}/EvzmqFind.cmake")
include(FindPackageHandleStandardArgs)

evzmq_find_c_library(MsgpackC::msgpackc OUT MSGPACKC
  PKGCONFIG msgpack-c msgpack
  HEADER msgpack/version_master.h
  LIBRARY msgpack-c msgpackc)

# Its own CMake packages are the last resort: they say the same, except where only msgpack-c_DIR or
# msgpack_DIR leads to it. The package msgpack of some systems is the C++ library, without these
# targets.
if(NOT TARGET MsgpackC::msgpackc)
  foreach(_msgpackc_package msgpack-c msgpack)
    find_package(${_msgpackc_package} CONFIG QUIET)
    foreach(_msgpackc_target msgpack-c msgpackc msgpack-c-static msgpackc-static)
      if(TARGET ${_msgpackc_target} AND NOT TARGET MsgpackC::msgpackc)
        add_library(MsgpackC::msgpackc INTERFACE IMPORTED)
        set_target_properties(MsgpackC::msgpackc PROPERTIES
          INTERFACE_LINK_LIBRARIES ${_msgpackc_target})
        get_target_property(MSGPACKC_INCLUDE_DIR ${_msgpackc_target} INTERFACE_INCLUDE_DIRECTORIES)
        set(MSGPACKC_LIBRARY ${_msgpackc_target})
      endif()
    endforeach()
  endforeach()
endif()

evzmq_read_version(MsgpackC_VERSION "${MSGPACKC_INCLUDE_DIR}/msgpack/version_master.h"
  MSGPACK_VERSION_MAJOR MSGPACK_VERSION_MINOR MSGPACK_VERSION_REVISION)

find_package_handle_standard_args(MsgpackC
  REQUIRED_VARS MSGPACKC_LIBRARY MSGPACKC_INCLUDE_DIR
  VERSION_VAR MsgpackC_VERSION)
