# Finds libzmq: the target LibZMQ::libzmq. libzmq's own CMake package, which only its builds with
# CMake install, is called ZeroMQ.

include("${CMAKE_CURRENT_LIST_DIR}/EvzmqFind.cmake")
include(FindPackageHandleStandardArgs)

evzmq_find_c_library(LibZMQ::libzmq OUT LIBZMQ
  PKGCONFIG libzmq
  HEADER zmq.h
  LIBRARY zmq libzmq
  PACKAGE ZeroMQ
  TARGET libzmq libzmq-static)
evzmq_read_version(LibZMQ_VERSION "${LIBZMQ_INCLUDE_DIR}/zmq.h"
  ZMQ_VERSION_MAJOR ZMQ_VERSION_MINOR ZMQ_VERSION_PATCH)

find_package_handle_standard_args(LibZMQ
  REQUIRED_VARS LIBZMQ_LIBRARY LIBZMQ_INCLUDE_DIR
  VERSION_VAR LibZMQ_VERSION)
