# evzmq_set_sanitizers(target): instruments a target as EVZMQ_SANITIZE says.

set(EVZMQ_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")

function(evzmq_set_sanitizers target)
  if(NOT EVZMQ_SANITIZE)
    return()
  endif()
  # A report that does not end the program would let its test pass.
  target_compile_options(${target} PRIVATE
    -fsanitize=${EVZMQ_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(${target} PRIVATE -fsanitize=${EVZMQ_SANITIZE})
endfunction()
