# evzmq_find_c_library(target PKGCONFIG names... HEADER file LIBRARY names... OUT prefix)
#
# What the Find modules of this project share: looks for a header and a library, first where
# pkg-config says and then in CMake's own places (CMAKE_PREFIX_PATH among them), and sets
# <prefix>_INCLUDE_DIR and <prefix>_LIBRARY in the cache, as a Find module does. Where both are
# found it makes the imported target.

find_package(PkgConfig QUIET)

macro(evzmq_find_c_library target)
  cmake_parse_arguments(_find "" "HEADER;OUT" "PKGCONFIG;LIBRARY" ${ARGN})
  if(PKG_CONFIG_FOUND AND NOT (${_find_OUT}_INCLUDE_DIR AND ${_find_OUT}_LIBRARY))
    pkg_search_module(PC_${_find_OUT} QUIET ${_find_PKGCONFIG})
  endif()
  find_path(${_find_OUT}_INCLUDE_DIR NAMES ${_find_HEADER}
    HINTS ${PC_${_find_OUT}_INCLUDEDIR} ${PC_${_find_OUT}_INCLUDE_DIRS})
  find_library(${_find_OUT}_LIBRARY NAMES ${_find_LIBRARY}
    HINTS ${PC_${_find_OUT}_LIBDIR} ${PC_${_find_OUT}_LIBRARY_DIRS})
  mark_as_advanced(${_find_OUT}_INCLUDE_DIR ${_find_OUT}_LIBRARY)
  if(${_find_OUT}_INCLUDE_DIR AND ${_find_OUT}_LIBRARY AND NOT TARGET ${target})
    add_library(${target} UNKNOWN IMPORTED)
    set_target_properties(${target} PROPERTIES
      IMPORTED_LOCATION "${${_find_OUT}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${${_find_OUT}_INCLUDE_DIR}")
  endif()
endmacro()

# evzmq_read_version(out file macro...): joins the numbers of some #define lines with dots.
function(evzmq_read_version out file)
  set(version "")
  if(EXISTS "${file}")
    foreach(macro ${ARGN})
      file(STRINGS "${file}" line REGEX "^#[ \t]*define[ \t]+${macro}[ \t]+[0-9]+")
      string(REGEX REPLACE "^#[ \t]*define[ \t]+${macro}[ \t]+([0-9]+).*" "\\1" number "${line}")
      list(APPEND version "${number}")
    endforeach()
  endif()
  string(REPLACE ";" "." version "${version}")
  set(${out} "${version}" PARENT_SCOPE)
endfunction()
