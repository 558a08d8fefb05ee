# Makes libraries of what cargo built that can be passed on: without debug information, and with no names but logdrive_*, so that
# a program may hold another zstd or another library in Rust.
#   cmake -DBUILT=DIR -DOUT=DIR -DLINKER=ld -DOBJCOPY=objcopy -DAR=ar -DNM=nm -P seal.cmake
function(call)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(NOT code EQUAL 0)
    list(GET ARGV 0 program)
    message(FATAL_ERROR "${program}: ${error}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY "${OUT}")
# Objects of other compilers may lie in the archive, which nm names on standard error.
execute_process(COMMAND "${NM}" --defined-only "${BUILT}/liblogdrive_c.a" OUTPUT_VARIABLE output ERROR_QUIET)
string(REGEX MATCHALL " T logdrive_[a-z_]+" names "${output}")
set(roots "")
foreach(name ${names})
  string(REPLACE " T " "" name "${name}")
  list(APPEND roots -u "${name}")
endforeach()
if(roots STREQUAL "")
  message(FATAL_ERROR "${BUILT}/liblogdrive_c.a has no functions of Logdrive")
endif()
set(joined "${OUT}/logdrive_c.o")
call("${LINKER}" -r --gc-sections -T "${CMAKE_CURRENT_LIST_DIR}/static-library.ld" ${roots} --whole-archive
  "${BUILT}/liblogdrive_c.a" -o "${joined}")
call("${OBJCOPY}" --wildcard --keep-global-symbol=logdrive_* --remove-section=.llvmbc --remove-section=.llvmcmd
  --strip-unneeded "${joined}")
file(REMOVE "${OUT}/liblogdrive_c.a")
call("${AR}" rcs "${OUT}/liblogdrive_c.a" "${joined}")
file(REMOVE "${joined}")
call("${OBJCOPY}" --strip-unneeded "${BUILT}/liblogdrive_c.so" "${OUT}/liblogdrive_c.so.0")
