# evzmq_set_warnings(target): what every target of this project is compiled with.

option(EVZMQ_WERROR "Treat compiler warnings as errors" OFF)

function(evzmq_set_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    $<$<BOOL:${EVZMQ_WERROR}>:-Werror>)
endfunction()
