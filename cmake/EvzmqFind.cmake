# evzmq_find_c_library(target OUT prefix HEADER file LIBRARY names... PKGCONFIG names...
#                      [PACKAGE names... TARGET names...])
#
# What the Find modules of this project share: looks for a header and a library, first where
# pkg-config says and then in CMake's own places (CMAKE_PREFIX_PATH among them), and sets
# <prefix>_INCLUDE_DIR and <prefix>_LIBRARY, as a Find module does. Where both are found it makes
# the imported target.
#
# PACKAGE names the CMake packages the library itself may bring, and TARGET their targets, the best
# first. They are the last resort, because they say the same, but come first where <package>_DIR
# leads to one: whoever sets that means it.

find_package(PkgConfig QUIET)

macro(evzmq_find_c_library target)
  cmake_parse_arguments(_find "" "HEADER;OUT" "PKGCONFIG;LIBRARY;PACKAGE;TARGET" ${ARGN})
  foreach(_find_name ${_find_PACKAGE})
    if(${_find_name}_DIR)
      _evzmq_use_package(${target} ${_find_name})
    endif()
  endforeach()
  if(NOT TARGET ${target})
    if(PKG_CONFIG_FOUND AND NOT (${_find_OUT}_INCLUDE_DIR AND ${_find_OUT}_LIBRARY))
      pkg_search_module(PC_${_find_OUT} QUIET ${_find_PKGCONFIG})
    endif()
    find_path(${_find_OUT}_INCLUDE_DIR NAMES ${_find_HEADER}
      HINTS ${PC_${_find_OUT}_INCLUDEDIR} ${PC_${_find_OUT}_INCLUDE_DIRS})
    find_library(${_find_OUT}_LIBRARY NAMES ${_find_LIBRARY}
      HINTS ${PC_${_find_OUT}_LIBDIR} ${PC_${_find_OUT}_LIBRARY_DIRS})
    mark_as_advanced(${_find_OUT}_INCLUDE_DIR ${_find_OUT}_LIBRARY)
    if(${_find_OUT}_INCLUDE_DIR AND ${_find_OUT}_LIBRARY)
      add_library(${target} UNKNOWN IMPORTED)
      set_target_properties(${target} PROPERTIES
        IMPORTED_LOCATION "${${_find_OUT}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${${_find_OUT}_INCLUDE_DIR}")
    endif()
  endif()
  foreach(_find_name ${_find_PACKAGE})
    _evzmq_use_package(${target} ${_find_name})
  endforeach()
  # It may have been made elsewhere, by whoever includes this project.
  if(TARGET ${target})
    _evzmq_describe(${target})
  endif()
endmacro()

# Makes the target of a package's targets, unless it is there; a package may make it itself.
macro(_evzmq_use_package target package)
  if(NOT TARGET ${target})
    find_package(${package} CONFIG QUIET)
    foreach(_find_target ${_find_TARGET})
      if(TARGET ${_find_target} AND NOT TARGET ${target})
        add_library(${target} INTERFACE IMPORTED)
        set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES ${_find_target})
      endif()
    endforeach()
  endif()
endmacro()

# Sets <prefix>_INCLUDE_DIR and <prefix>_LIBRARY, where they are not, from what the target says.
macro(_evzmq_describe target)
  set(_find_real ${target})
  get_target_property(_find_links ${target} INTERFACE_LINK_LIBRARIES)
  if(TARGET "${_find_links}")
    set(_find_real ${_find_links})
  endif()
  get_target_property(_find_directories ${_find_real} INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT ${_find_OUT}_INCLUDE_DIR)
    foreach(_find_directory ${_find_directories})
      if(EXISTS "${_find_directory}/${_find_HEADER}")
        set(${_find_OUT}_INCLUDE_DIR "${_find_directory}")
      endif()
    endforeach()
  endif()
  get_target_property(_find_type ${_find_real} TYPE)
  if(NOT ${_find_OUT}_LIBRARY AND NOT _find_type STREQUAL "INTERFACE_LIBRARY")
    get_target_property(${_find_OUT}_LIBRARY ${_find_real} LOCATION)
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
