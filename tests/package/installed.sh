#!/bin/sh
# installed.sh BUILD: what is installed, where it was installed and where it was moved to, serves
# CMake and pkg-config. Programs are built in a directory of their own.
set -u
. "$(dirname -- "$0")/consume.sh"

# is_shared PROGRAM yes|no: whether it needs the shared library at run time.
is_shared() {
    if command -v readelf >/dev/null; then
        readelf -d "$1" >needed
        case $2 in
        yes) has 1 needed "NEEDED.*\[libevzmq\.so\.$abi\]" ;;
        no) has 0 needed 'libevzmq' ;;
        esac
    fi
}

# Of version 0.1.2 0.1, of version 1.2.3 1.
abi=${version%%.*}
[ "$abi" != 0 ] || abi=${version%.*}

# prefix_by WAY: installs to ./prefix, or there and moves it.
prefix_by() {
    case $1 in
    installed) install_to "$PWD/prefix" ;;
    relocated)
        install_to "$PWD/first"
        mv first prefix || fail "cannot move it"
        libdir=$PWD/prefix/${libdir#"$PWD/first/"}
        ;;
    esac
}

find_package_builds_the_first_program() {
    prefix_by "$1"
    make_project
    configure -DWAY=find_package "-DCMAKE_PREFIX_PATH=$PWD/prefix" "-DLIBRARY=evzmq::$2" \
        "-DWANTED_VERSION=${version%.*}"
    build_project
    case $2 in
    evzmq) is_shared made/hello yes ;;
    *) is_shared made/hello no ;;
    esac
}

pkg_config_builds_the_first_program() {
    prefix_by "$1"
    make_project
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    flags=$("$pkg_config" --cflags --libs evzmq) || fail "pkg-config: $flags"
    for program in receiver hello; do
        # shellcheck disable=SC2086  # The flags are words.
        step "$cc" "project/$program.c" -o "$program" $flags
    done
    export LD_LIBRARY_PATH="$libdir"
    says_hello ./hello
    is_shared hello yes
}

# The flags of --static include what libzmq's own static library needs. Where these do not link
# (Debian 12: norm.pc names a file without its directory), a libzmq.pc stands in that needs nothing.
pkg_config_static_builds_the_first_program() {
    prefix_by "$1"
    make_project
    rm -f "$libdir"/libevzmq.so* "$libdir"/libevzmq*.dylib
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    zmq_flags=$("$pkg_config" --static --cflags --libs libzmq)
    printf '#include <zmq.h>\nint main(void)\n{\n    return zmq_errno();\n}\n' >probe.c
    # shellcheck disable=SC2086
    if ! "$cc" probe.c -o probe $zmq_flags >/dev/null 2>&1; then
        echo "  libzmq's own static flags do not link here: $zmq_flags" >&2
        mkdir stand-in
        printf 'Name: libzmq\nDescription: stands in\nVersion: %s\nLibs: %s\nCflags: -I%s\n' \
            "$("$pkg_config" --modversion libzmq)" "$(cached LIBZMQ_LIBRARY)" \
            "$(cached LIBZMQ_INCLUDE_DIR)" >stand-in/libzmq.pc
        PKG_CONFIG_PATH=$PWD/stand-in:$PKG_CONFIG_PATH
    fi
    flags=$("$pkg_config" --static --cflags --libs evzmq) || fail "pkg-config: $flags"
    for program in receiver hello; do
        # shellcheck disable=SC2086
        step "$cc" "project/$program.c" -o "$program" $flags
    done
    says_hello ./hello
    is_shared hello no
}

a_cxx_project_uses_every_header() {
    prefix_by installed
    make_project
    for header in "$root"/include/evzmq/*.h; do
        has 1 project/every_header.cc "^#include <evzmq/${header##*/}>\$"
    done
    configure -DWAY=find_package "-DCMAKE_PREFIX_PATH=$PWD/prefix" -DONLY_CXX=ON
    step "$cmake" --build made
    run 0 made/every_header
}

# What another version asks for is not promised.
find_package_refuses_another_abi() {
    prefix_by installed
    make_project
    for wanted in 99 "${version%%.*}.99"; do
        rm -rf made
        "$cmake" -S project -B made "-DCMAKE_C_COMPILER=$cc" -DLIBRARY=evzmq::evzmq \
            -DWAY=find_package "-DCMAKE_PREFIX_PATH=$PWD/prefix" "-DWANTED_VERSION=$wanted" \
            >log 2>&1 && fail "version $wanted was found"
        grep -q "version: $version" log || fail "$(cat log)"
    done
}

the_names_of_the_library_are_of_its_version() {
    prefix_by installed
    [ -f "$libdir/libevzmq.so.$version" ] || fail "no libevzmq.so.$version"
    [ "$(readlink "$libdir/libevzmq.so.$abi")" = "libevzmq.so.$version" ] || fail "no .so.$abi"
    [ "$(readlink "$libdir/libevzmq.so")" = "libevzmq.so.$abi" ] || fail "no .so"
    [ "$(PKG_CONFIG_PATH=$libdir/pkgconfig "$pkg_config" --modversion evzmq)" = "$version" ] ||
        fail "evzmq.pc has another version"
    if command -v readelf >/dev/null; then
        readelf -d "$libdir/libevzmq.so" >dynamic
        has 1 dynamic "SONAME.*\[libevzmq\.so\.$abi\]"
        has 0 dynamic 'RPATH|RUNPATH'
    fi
}

all_headers_and_nothing_else_is_installed() {
    prefix_by installed
    (cd "$root/include" && find . -type f | sort) >wanted
    (cd prefix/include && find . -type f | sort) >present
    diff wanted present || fail "other headers"
    # Nothing says where it was built or first installed.
    grep -rlF -e "$root" -e "$build" -e "$PWD" "$libdir/cmake" "$libdir/pkgconfig" prefix/include
    [ $? = 1 ] || fail "a path of the build is in it"
}

# Which of them are private is in evzmq.pc itself.
pkg_config_names_the_three_libraries_and_no_other() {
    prefix_by installed
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    "$pkg_config" --print-requires evzmq >requires
    has 1 requires '^libevent(_core)? *>= *[0-9.]+$'
    has 1 requires '^libzmq *>= *[0-9.]+$'
    has 1 requires '^msgpack(-c)? *>= *[0-9.]+$'
    has 3 requires .
    "$pkg_config" --print-requires-private evzmq >private
    has 0 private .
}

for way in installed relocated; do
    claim find_package_builds_the_first_program "$way" evzmq
    claim find_package_builds_the_first_program "$way" evzmq_static
    claim pkg_config_builds_the_first_program "$way"
    claim pkg_config_static_builds_the_first_program "$way"
done
if command -v c++ >/dev/null; then
    claim a_cxx_project_uses_every_header
else
    echo "[ RUN      ] a_cxx_project_uses_every_header"
    echo "[  SKIPPED ] a_cxx_project_uses_every_header"
fi
claim find_package_refuses_another_abi
claim the_names_of_the_library_are_of_its_version
claim all_headers_and_nothing_else_is_installed
claim pkg_config_names_the_three_libraries_and_no_other
exit "$claims_failed"
