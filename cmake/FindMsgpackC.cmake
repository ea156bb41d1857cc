# Finds the C library of msgpack-c: the target MsgpackC::msgpackc.
#
# It goes by several names. Up to 5.x pkg-config and CMake call it msgpack and the library is
# msgpackc; from 6.0 on pkg-config, CMake and the library all say msgpack-c. The package msgpack of
# some systems is the C++ library, without these targets.

include("${CMAKE_CURRENT_LIST_DIR}/EvzmqFind.cmake")
include(FindPackageHandleStandardArgs)

evzmq_find_c_library(MsgpackC::msgpackc OUT MSGPACKC
  PKGCONFIG msgpack-c msgpack
  HEADER msgpack/version_master.h
  LIBRARY msgpack-c msgpackc
  PACKAGE msgpack-c msgpack
  TARGET msgpack-c msgpackc msgpack-c-static msgpackc-static)

evzmq_read_version(MsgpackC_VERSION "${MSGPACKC_INCLUDE_DIR}/msgpack/version_master.h"
  MSGPACK_VERSION_MAJOR MSGPACK_VERSION_MINOR MSGPACK_VERSION_REVISION)

find_package_handle_standard_args(MsgpackC
  REQUIRED_VARS MSGPACKC_LIBRARY MSGPACKC_INCLUDE_DIR
  VERSION_VAR MsgpackC_VERSION)
