# evzmq_set_warnings(target): what every target of this project is compiled with. What peers send is
# never a format: -Wformat-nonliteral sees to that.

option(EVZMQ_WERROR "Treat compiler warnings as errors" OFF)

function(evzmq_set_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    -Wformat -Wformat-nonliteral
    $<$<BOOL:${EVZMQ_WERROR}>:-Werror>)
endfunction()
