#!/bin/sh
# embedded.sh BUILD: evzmq inside another project, by add_subdirectory and by FetchContent. What
# these get is a copy of what the library is made of: it needs neither tests nor examples.
set -u
. "$(dirname -- "$0")/consume.sh"

copy_sources() {
    mkdir sources
    for item in CMakeLists.txt cmake include plugin; do
        cp -R "$root/$item" sources || fail "cannot copy $item"
    done
}

# Neither its options nor its tests come along, and nothing of it is installed.
leaves_the_project_alone() {
    step "$cmake" --install made --prefix "$PWD/prefix"
    [ ! -e prefix ] || fail "it installs: $(find prefix)"
    has 1 made/CMakeCache.txt '^EVZMQ_BUILD_TESTS:BOOL=OFF$'
    has 1 made/CMakeCache.txt '^EVZMQ_BUILD_EXAMPLES:BOOL=OFF$'
    has 1 made/CMakeCache.txt '^CMAKE_BUILD_TYPE:[A-Z]*=$'
}

add_subdirectory_builds_the_first_program() {
    copy_sources
    make_project
    configure -DWAY=add_subdirectory "-DSOURCE=$PWD/sources" -DLIBRARY=evzmq::evzmq_static
    build_project
    leaves_the_project_alone
}

# From a git repository, or from plain sources where there is no git.
fetch_content_builds_the_first_program() {
    copy_sources
    make_project
    if command -v git >/dev/null; then
        (cd sources && git init -q -b main && git add . &&
            git -c user.name=test -c user.email=test@localhost commit -q -m sources) ||
            fail "cannot make a repository"
        configure -DWAY=FetchContent "-DSOURCE=file://$PWD/sources"
    else
        configure -DWAY=FetchContent -DSOURCE=none "-DFETCHCONTENT_SOURCE_DIR_EVZMQ=$PWD/sources"
    fi
    step "$cmake" --build made --target receiver hello
    says_hello made/hello
}

claim add_subdirectory_builds_the_first_program
claim fetch_content_builds_the_first_program
exit "$claims_failed"
