# What the tests of this directory share; sourced by them, never run. Each gets the build directory
# whose libraries are installed, and is one claim for each way of having them.

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
root=$(CDPATH='' cd -- "$here/../.." && pwd) || exit 1
build=$(CDPATH='' cd -- "$1" && pwd) || exit 1
. "$here/../support/claims.sh"

# cached NAME: what the build directory's configuration found.
cached() {
    sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"
}

cmake=$(cached CMAKE_COMMAND)
cc=$(cached CMAKE_C_COMPILER)
pkg_config=$(cached PKG_CONFIG_EXECUTABLE)
version=$(sed -n 's/^#define EVZMQ_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$root/include/evzmq/base.h" |
    tr '\n' . | sed 's/\.$//')

# Nothing of the caller's may find, or say, anything.
unset PKG_CONFIG_PATH PKG_CONFIG_LIBDIR CMAKE_PREFIX_PATH LD_LIBRARY_PATH CFLAGS LDFLAGS

# step COMMAND...: it succeeds; its output is in the file log afterwards.
step() {
    "$@" >log 2>&1 </dev/null || fail "$* : $(tail -n 40 log)"
}

# install_to DIRECTORY
install_to() {
    step "$cmake" --install "$build" --prefix "$1"
    libdir=$(dirname "$(find "$1" -name libevzmq.a)")
    [ "$libdir" != . ] || fail "no libevzmq.a in $1"
}

# Copies the programs, receiver.c of the README among them, to the directory project.
make_project() {
    cp -R "$here/project" project || fail "cannot copy the project"
    awk -v prefix=project/readme- -f "$root/cmake/snippets.awk" "$root/README.md"
    mv project/readme-1.c project/receiver.c || fail "README.md has no program"
    rm -f project/readme-*.c
    grep -q 'main(' project/receiver.c || fail "README.md does not begin with a program"
}

# configure ARGUMENTS...: the project in the directory made, with the compiler of the build.
configure() {
    step "$cmake" -S project -B made -G "$(cached CMAKE_GENERATOR)" "-DCMAKE_C_COMPILER=$cc" \
        -DLIBRARY=evzmq::evzmq "$@"
}

# says_hello PROGRAM: it runs and works.
says_hello() {
    run 0 "$1"
    has 1 out "^hello from evzmq $version, "
}

# Builds the project's programs with CMake and runs one of them.
build_project() {
    step "$cmake" --build made
    [ -x made/receiver ] || fail "no receiver"
    says_hello made/hello
}
