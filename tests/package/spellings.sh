#!/bin/sh
# spellings.sh BUILD: what evzmq depends on is found under every name and by every way it is
# installed elsewhere. The headers here, with other versions written into them, and links to the
# libraries here stand in for what other systems have; CMake and pkg-config see nothing but these.
set -u
. "$(dirname -- "$0")/consume.sh"

# set_number FILE NAME NUMBER: the number of a #define.
set_number() {
    sed "s/^\(#[ ]*define[ ]*$2[ ]*\)[0-9]*/\1$3/" "$1" >edited && cat edited >"$1" ||
        fail "cannot edit $1"
}

# set_version FILE PREFIX LAST VERSION: PREFIX_MAJOR, PREFIX_MINOR and PREFIX_LAST.
set_version() {
    set_number "$1" "$2_MAJOR" "$(echo "$4" | cut -d . -f 1)"
    set_number "$1" "$2_MINOR" "$(echo "$4" | cut -d . -f 2)"
    set_number "$1" "$2_$3" "$(echo "$4" | cut -d . -f 3)"
}

# headers DIRECTORY MSGPACK LIBZMQ LIBEVENT: with these versions.
headers() {
    mkdir -p "$1"
    msgpack_include=$(cached MSGPACKC_INCLUDE_DIR)
    event_include=$(cached LIBEVENT_CORE_INCLUDE_DIR)
    cp -R "$msgpack_include/msgpack.h" "$msgpack_include/msgpack" \
        "$(cached LIBZMQ_INCLUDE_DIR)/zmq.h" "$event_include/event2" "$1" || fail "cannot copy"
    for config in "$event_include"/*/event2/event-config.h; do
        [ ! -e "$config" ] || cp "$config" "$1/event2"
    done
    chmod -R u+w "$1"
    set_version "$1/msgpack/version_master.h" MSGPACK_VERSION REVISION "$2"
    set_version "$1/zmq.h" ZMQ_VERSION PATCH "$3"
    sed "s/\(define EVENT__VERSION \)\".*\"/\1\"$4\"/" "$1/event2/event-config.h" >edited &&
        cat edited >"$1/event2/event-config.h"
}

# libraries DIRECTORY MSGPACK-NAME LIBEVENT-NAME
libraries() {
    mkdir -p "$1"
    for pair in "MSGPACKC $2" "LIBZMQ zmq" "LIBEVENT_CORE $3"; do
        real=$(cached "${pair%% *}_LIBRARY")
        ln -s "$real" "$1/lib${pair##* }.${real##*.}" || fail "cannot link $real"
    done
    suffix=${real##*.}
}

# pc MODULE VERSION LIBRARY: pkg-config knows it in ./fake/odd.
pc() {
    mkdir -p fake/pc
    printf 'Name: %s\nDescription: stands in\nVersion: %s\nLibs: -L%s -l%s\nCflags: -I%s\n' \
        "$1" "$2" "$PWD/fake/odd/lib" "$3" "$PWD/fake/odd/include" >"fake/pc/$1.pc"
}

# package DIRECTORY FILE TARGET LIBRARY VERSION: a CMake package of what is in ./fake/odd.
package() {
    mkdir -p "$1"
    stem=${2%.cmake}
    case $stem in
    *-config) stem=$stem-version ;;
    *) stem=${stem}Version ;;
    esac
    cat >"$1/$stem.cmake" <<END
set(PACKAGE_VERSION "$5")
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
END
    cat >"$1/$2" <<END
add_library($3 SHARED IMPORTED)
set_target_properties($3 PROPERTIES
  IMPORTED_LOCATION "$PWD/fake/odd/lib/lib$4.$suffix"
  INTERFACE_INCLUDE_DIRECTORIES "$PWD/fake/odd/include")
END
}

# only_fake SOURCE ARGUMENTS...: configures it with nothing but what is in ./fake.
only_fake() {
    source=$1
    shift
    PKG_CONFIG_LIBDIR=$PWD/fake/pc "$cmake" -S "$source" -B made "-DCMAKE_C_COMPILER=$cc" \
        "-DCMAKE_FIND_ROOT_PATH=$PWD/fake" -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
        "-DPKG_CONFIG_EXECUTABLE=$pkg_config" \
        -DWAY=find_package -DLIBRARY=evzmq::evzmq "-Devzmq_DIR=$libdir/cmake/evzmq" \
        "$@" >log 2>&1 </dev/null
}

# builds MSGPACK LIBZMQ LIBEVENT ARGUMENTS...: the program is compiled with these versions.
builds() {
    install_to "$PWD/prefix"
    make_project
    wanted="compiled with libevent $3, libzmq $2, msgpack-c $1"
    shift 3
    only_fake project "$@" || fail "$(tail -n 40 log)"
    build_project
    has 1 out "$wanted\$"
}

# What Debian 12 and the like have, and what msgpack-c 6 and a libevent of one piece look like.
pkg_config_leads_to_msgpackc_4() {
    headers fake/odd/include 4.0.0 4.3.4 2.1.12-stable
    libraries fake/odd/lib msgpackc event_core
    pc msgpack 4.0.0 msgpackc
    pc libzmq 4.3.4 zmq
    pc libevent_core 2.1.12-stable event_core
    builds 4.0.0 4.3.4 2.1.12-stable
}

pkg_config_leads_to_msgpack_c_6() {
    headers fake/odd/include 6.1.0 4.3.5 2.2.1-alpha
    libraries fake/odd/lib msgpack-c event
    pc msgpack-c 6.1.0 msgpack-c
    pc libzmq 4.3.5 zmq
    pc libevent 2.2.1-alpha event
    builds 6.1.0 4.3.5 2.2.1-alpha
}

all_are_found_by_name_alone() {
    headers fake/opt/own/include 6.1.0 4.3.5 2.2.1-alpha
    libraries fake/opt/own/lib msgpack-c event_core
    builds 6.1.0 4.3.5 2.2.1-alpha -DCMAKE_PREFIX_PATH=/opt/own
}

their_own_cmake_packages_of_old() {
    headers fake/odd/include 4.0.0 4.3.4 2.1.12-stable
    libraries fake/odd/lib msgpackc event_core
    package fake/usr/lib/cmake/msgpack msgpack-config.cmake msgpackc msgpackc 4.0.0
    package fake/usr/lib/cmake/ZeroMQ ZeroMQConfig.cmake libzmq zmq 4.3.4
    package fake/usr/lib/cmake/libevent LibeventConfig.cmake libevent::core \
        event_core 2.1.12
    builds 4.0.0 4.3.4 2.1.12-stable
}

their_own_cmake_packages_of_now() {
    headers fake/odd/include 6.1.0 4.3.5 2.2.1-alpha
    libraries fake/odd/lib msgpack-c event_core
    package fake/usr/lib/cmake/msgpack-c msgpack-c-config.cmake msgpack-c msgpack-c 6.1.0
    package fake/usr/lib/cmake/ZeroMQ ZeroMQConfig.cmake libzmq-static zmq 4.3.5
    package fake/usr/lib/cmake/libevent LibeventConfig.cmake libevent::core \
        event_core 2.2.1
    builds 6.1.0 4.3.5 2.2.1-alpha
}

a_package_directory_that_is_set_wins() {
    headers fake/usr/include 4.0.0 4.3.4 2.1.12-stable
    libraries fake/usr/lib msgpackc event_core
    headers fake/odd/include 6.1.0 4.3.5 2.2.1-alpha
    libraries fake/odd/lib msgpack-c event_core
    package there msgpack-c-config.cmake msgpack-c msgpack-c 6.1.0
    package there ZeroMQConfig.cmake libzmq zmq 4.3.5
    package there LibeventConfig.cmake libevent::core event_core 2.2.1
    builds 6.1.0 4.3.5 2.2.1-alpha "-Dmsgpack-c_DIR=$PWD/there" "-DZeroMQ_DIR=$PWD/there" \
        "-DLibevent_DIR=$PWD/there"
}

# refused TEXT: the project is not configured, and the message says this.
refused() {
    install_to "$PWD/prefix"
    make_project
    only_fake project && fail "it was found: $(cat log)"
    tr -s ' \n' ' ' <log >line
    grep -qF "$1" line || fail "no word of $1: $(cat log)"
}

older_ones_are_refused_by_name() {
    headers fake/usr/include "$1" "$2" "$3"
    libraries fake/usr/lib msgpackc event_core
    refused "evzmq needs what is not there: $4"
}

# Some systems' package msgpack: headers, and no library.
the_cxx_library_of_msgpack_is_not_taken() {
    headers fake/odd/include 6.1.0 4.3.5 2.2.1-alpha
    libraries fake/odd/lib msgpack-c event_core
    rm fake/odd/include/msgpack.h fake/odd/lib/libmsgpack-c.*
    pc msgpack 6.1.0 msgpack
    pc libzmq 4.3.5 zmq
    pc libevent_core 2.2.1-alpha event_core
    refused "evzmq needs what is not there: MsgpackC 4.0"
}

# Configures evzmq itself and looks at its evzmq.pc.
evzmq_pc_names_what_pkg_config_knows() {
    headers fake/odd/include 6.1.0 4.3.5 2.2.1-alpha
    libraries fake/odd/lib msgpack-c event
    pc msgpack-c 6.1.0 msgpack-c
    pc libzmq 4.3.5 zmq
    pc libevent 2.2.1-alpha event
    libdir=none
    only_fake "$root" -DEVZMQ_BUILD_TESTS=OFF -DEVZMQ_BUILD_EXAMPLES=OFF || fail "$(cat log)"
    has 1 made/evzmq.pc '^Requires: libevent >= [0-9.]+, libzmq >= [0-9.]+, msgpack-c >= [0-9.]+$'
    has 1 made/evzmq.pc '^Libs: -L\$\{libdir\} -levzmq$'
}

evzmq_pc_has_the_paths_of_what_pkg_config_does_not_know() {
    headers fake/odd/include 6.1.0 4.3.5 2.2.1-alpha
    libraries fake/odd/lib msgpack-c event_core
    package there msgpack-c-config.cmake msgpack-c msgpack-c 6.1.0
    pc msgpack 4.0.0 msgpackc
    pc libzmq 4.3.5 zmq
    pc libevent_core 2.2.1-alpha event_core
    libdir=none
    only_fake "$root" -DEVZMQ_BUILD_TESTS=OFF -DEVZMQ_BUILD_EXAMPLES=OFF \
        "-Dmsgpack-c_DIR=$PWD/there" || fail "$(cat log)"
    has 1 made/evzmq.pc '^Requires: libevent_core >= [0-9.]+, libzmq >= [0-9.]+$'
    has 1 made/evzmq.pc "^Libs: .* $PWD/fake/odd/lib/libmsgpack-c\.$suffix\$"
    has 1 made/evzmq.pc "^Cflags: .* -I$PWD/fake/odd/include\$"
}

claim pkg_config_leads_to_msgpackc_4
claim pkg_config_leads_to_msgpack_c_6
claim all_are_found_by_name_alone
claim their_own_cmake_packages_of_old
claim their_own_cmake_packages_of_now
claim a_package_directory_that_is_set_wins
claim older_ones_are_refused_by_name 3.3.0 4.3.4 2.1.12-stable "MsgpackC 4.0 (found: 3.3.0)"
claim older_ones_are_refused_by_name 4.0.0 4.3.3 2.1.12-stable "LibZMQ 4.3.4 (found: 4.3.3)"
claim older_ones_are_refused_by_name 4.0.0 4.3.4 2.1.11-stable "Libevent 2.1.12 (found: 2.1.11)"
claim the_cxx_library_of_msgpack_is_not_taken
claim evzmq_pc_names_what_pkg_config_knows
claim evzmq_pc_has_the_paths_of_what_pkg_config_does_not_know
exit "$claims_failed"
