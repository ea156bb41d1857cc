# What `cmake --install` puts where: headers, both libraries, the CMake package with the Find modules
# it needs, and evzmq.pc. None of it names the prefix, so that an installed tree can be moved.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/evzmq)

install(TARGETS evzmq evzmq_static EXPORT evzmqTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/evzmq
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

install(EXPORT evzmqTargets NAMESPACE evzmq:: DESTINATION ${package_dir})
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/evzmqConfig.cmake.in ${PROJECT_BINARY_DIR}/evzmqConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/evzmqConfigVersion.cmake
  COMPATIBILITY ${abi_compatibility})
install(FILES
  ${PROJECT_BINARY_DIR}/evzmqConfig.cmake
  ${PROJECT_BINARY_DIR}/evzmqConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/EvzmqFind.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindLibevent.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindLibZMQ.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindMsgpackC.cmake
  DESTINATION ${package_dir})

# evzmq_pc_require(prefix version minimum): one line of what evzmq.pc requires. A library that
# pkg-config knows in the version that was found is named; any other, which came from a CMake
# package or CMAKE_PREFIX_PATH, is given by its path.
set(pc_requires "")
set(pc_libs "")
set(pc_cflags "")
macro(evzmq_pc_require prefix version minimum)
  if(PKG_CONFIG_FOUND AND NOT PC_${prefix}_FOUND)
    pkg_search_module(PC_${prefix} QUIET ${ARGN})
  endif()
  string(REGEX MATCH "^[0-9.]*[0-9]" _pc_version "${PC_${prefix}_VERSION}")
  if(PC_${prefix}_FOUND AND _pc_version VERSION_EQUAL "${version}")
    list(APPEND pc_requires "${PC_${prefix}_MODULE_NAME} >= ${minimum}")
  else()
    string(APPEND pc_libs " ${${prefix}_LIBRARY}")
    string(APPEND pc_cflags " -I${${prefix}_INCLUDE_DIR}")
  endif()
endmacro()
evzmq_pc_require(LIBEVENT_CORE "${Libevent_VERSION}" ${EVZMQ_LIBEVENT_MIN} libevent_core libevent)
evzmq_pc_require(LIBZMQ "${LibZMQ_VERSION}" ${EVZMQ_LIBZMQ_MIN} libzmq)
evzmq_pc_require(MSGPACKC "${MsgpackC_VERSION}" ${EVZMQ_MSGPACKC_MIN} msgpack-c msgpack)
string(REPLACE ";" ", " pc_requires "${pc_requires}")

# Where a directory is absolute it is meant so; else it is found from evzmq.pc itself.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
  set(pc_libdir "${CMAKE_INSTALL_LIBDIR}")
else()
  file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/evzmq.pc.in ${PROJECT_BINARY_DIR}/evzmq.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/evzmq.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
