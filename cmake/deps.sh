#!/bin/sh
# Installs what is missing, with the system's package manager, asking nothing.
#
#   sh cmake/deps.sh [build | test | ci | browser]
#
# build: compiler, make, CMake, pkg-config, libevent, libzmq, msgpack-c    (the default)
# test:  these, cmocka and jansson
# ci:    these and a C++ compiler, clang, clang-format, doxygen, gcovr, valgrind, and the Python
#        modules of the peer in another language (not on macOS)
# browser: Chromium, for the test of the gateway's page, which is skipped where there is none
#
# Does nothing where all is there. Needs root or a sudo that asks for no password, except with brew.
set -u

group=${1:-build}
case $group in
build) wanted="cc make cmake pkgconf libevent libzmq msgpack" ;;
test) wanted="cc make cmake pkgconf libevent libzmq msgpack cmocka jansson" ;;
ci)
    wanted="cc make cmake pkgconf libevent libzmq msgpack cmocka jansson cxx clang clang-format"
    wanted="$wanted doxygen gcovr valgrind python-zmq python-msgpack"
    ;;
browser) wanted="chromium" ;;
*)
    echo "usage: sh cmake/deps.sh [build | test | ci | browser]" >&2
    exit 2
    ;;
esac

have() {
    command -v "$1" >/dev/null 2>&1
}

compiler() {
    for name in "${CC:-cc}" cc gcc clang; do
        if have "$name"; then
            echo "$name"
            return
        fi
    done
}

# links HEADER LIBRARY...: a program with the header links with one of the libraries.
links() {
    header=$1
    shift
    cc=$(compiler)
    [ -n "$cc" ] || return 1
    probe=$(mktemp -d) || return 1
    result=1
    printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n' \
        >"$probe/probe.c"
    printf '#include <%s>\nint main(void)\n{\n    return 0;\n}\n' "$header" >>"$probe/probe.c"
    for library in "$@"; do
        # shellcheck disable=SC2086  # The flags are words.
        if $cc ${CPPFLAGS:-} ${LDFLAGS:-} -o "$probe/probe" "$probe/probe.c" "-l$library" \
            >/dev/null 2>&1; then
            result=0
            break
        fi
    done
    rm -rf "$probe"
    return $result
}

# package_known NAME...: pkg-config knows one of the names.
package_known() {
    have pkg-config || return 1
    for name in "$@"; do
        if pkg-config --exists "$name" 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

# python_knows MODULE: the system's Python can import it. Others, of a pyenv say, do not count.
python_knows() {
    [ "$(uname)" = Darwin ] || /usr/bin/python3 -c "import $1" >/dev/null 2>&1
}

present() {
    case $1 in
    cc) links stdio.h c ;;
    make) have make ;;
    cmake) have cmake ;;
    pkgconf) have pkg-config ;;
    libevent) package_known libevent_core || links event2/event.h event_core ;;
    libzmq) package_known libzmq || links zmq.h zmq ;;
    msgpack) package_known msgpack-c msgpack || links msgpack.h msgpack-c msgpackc ;;
    cmocka) package_known cmocka || links cmocka.h cmocka ;;
    jansson) package_known jansson || links jansson.h jansson ;;
    cxx) have c++ || have g++ ;;
    clang) have clang ;;
    clang-format) have clang-format-14 || have clang-format ;;
    doxygen) have doxygen ;;
    gcovr) have gcovr ;;
    python-zmq) python_knows zmq ;;
    python-msgpack) python_knows msgpack ;;
    chromium) have chromium || have chromium-browser || have google-chrome ;;
    valgrind) valgrind -q true >/dev/null 2>&1 ;; # Without libc's symbols it does not start.
    esac
}

missing() {
    for item in $wanted; do
        present "$item" || printf '%s ' "$item"
    done
}

# first_known COMMAND... -- NAME...: the first name that the command knows, else the last one.
first_known() {
    query=
    while [ "$1" != -- ]; do
        query="$query $1"
        shift
    done
    shift
    for name in "$@"; do
        if $query "$name" 2>/dev/null | grep -q .; then
            break
        fi
    done
    echo "$name"
}

apt_name() {
    case $1 in
    cc) echo gcc libc6-dev ;;
    pkgconf) echo pkg-config ;;
    libevent) echo libevent-dev ;;
    libzmq) echo libzmq3-dev ;;
    msgpack) first_known apt-cache show -- libmsgpack-c-dev libmsgpack-dev ;;
    cmocka) echo libcmocka-dev ;;
    jansson) echo libjansson-dev ;;
    cxx) echo g++ ;;
    python-zmq) echo python3 python3-zmq ;;
    python-msgpack) echo python3 python3-msgpack ;;
    clang-format) first_known apt-cache show -- clang-format-14 clang-format ;;
    valgrind) echo valgrind libc6-dbg ;;
    *) echo "$1" ;;
    esac
}

dnf_name() {
    case $1 in
    cc) echo gcc ;;
    pkgconf) echo pkgconf-pkg-config ;;
    libevent) echo libevent-devel ;;
    libzmq) echo zeromq-devel ;;
    msgpack) first_known dnf -q repoquery -- msgpack-c-devel msgpack-devel ;;
    cmocka) echo libcmocka-devel ;;
    jansson) echo jansson-devel ;;
    cxx) echo gcc-c++ ;;
    python-zmq) echo python3-zmq ;;
    python-msgpack) echo python3-msgpack ;;
    clang-format) echo clang-tools-extra ;;
    *) echo "$1" ;;
    esac
}

pacman_name() {
    case $1 in
    cc | cxx) echo gcc ;;
    libzmq) echo zeromq ;;
    msgpack) echo msgpack-c ;;
    python-zmq) echo python-pyzmq ;;
    clang-format) echo clang ;;
    *) echo "$1" ;;
    esac
}

brew_name() {
    case $1 in
    cc | cxx | make | clang) ;; # Apple's command line tools bring these.
    libzmq) echo zeromq ;;
    *) echo "$1" ;;
    esac
}

packages() {
    for item in $todo; do
        "${manager}_name" "$item"
    done | tr '\n' ' '
}

# Only with -n does sudo ask nothing.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

# shellcheck disable=SC2046  # Package names are words.
install() {
    case $manager in
    apt)
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 $(packages)
        ;;
    dnf) as_root dnf install -y $(packages) ;;
    pacman) as_root pacman -S --needed --noconfirm $(packages) ;;
    brew) HOMEBREW_NO_AUTO_UPDATE=1 brew install $(packages) ;;
    esac
}

# What to do where the package lists are missing or too old, as they are in a fresh container.
refresh() {
    case $manager in
    apt) as_root apt-get update -q -o DPkg::Lock::Timeout=300 ;;
    dnf) as_root dnf makecache ;;
    pacman) as_root pacman -Sy --noconfirm ;;
    brew) brew update ;;
    esac
}

todo=$(missing)
if [ -z "$todo" ]; then
    exit 0
fi
echo "Missing: $todo"

manager=
for name in apt-get:apt dnf:dnf pacman:pacman brew:brew; do
    if have "${name%%:*}"; then
        manager=${name##*:}
        break
    fi
done
if [ -z "$manager" ]; then
    echo "Cannot install it: no apt-get, dnf, pacman or brew here. Install it by hand." >&2
    exit 1
fi
if [ "$manager" = brew ] && [ "$(id -u)" = 0 ]; then
    echo "Cannot install it: brew refuses to run as root. Run this as a user." >&2
    exit 1
fi
if [ "$manager" != brew ] && [ "$(id -u)" != 0 ] && ! sudo -n true >/dev/null 2>&1; then
    echo "Cannot install it: this needs root, or a sudo that asks for no password. By hand, as root:" >&2
    echo "    $manager: $(packages)" >&2
    exit 1
fi

echo "Installing with $manager: $(packages)"
if ! install </dev/null >/dev/null 2>&1; then
    echo "That failed; with fresh package lists:"
    refresh </dev/null
    echo "Installing with $manager: $(packages)"
    install </dev/null
fi

todo=$(missing)
if [ -n "$todo" ]; then
    echo "Still missing after the installation: $todo" >&2
    case " $todo " in
    *" cc "*) [ "$manager" = brew ] && echo "The compiler comes with: xcode-select --install" >&2 ;;
    esac
    exit 1
fi
