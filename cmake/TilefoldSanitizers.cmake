# TILEFOLD_SANITIZE=address,undefined or thread instruments everything that is built.
if(TILEFOLD_SANITIZE)
  add_compile_options(-fsanitize=${TILEFOLD_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TILEFOLD_SANITIZE})
  if(TILEFOLD_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
