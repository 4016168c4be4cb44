# Compiler, warnings, sanitizers and ccache: what every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# A third of a test's compile time goes into optimising what runs once; what it tests stays at -O3.
set(TANDEM_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)
if(TANDEM_SANITIZE)
  set(TANDEM_TEST_OPTIONS -O0)
endif()

# ccache sees paths relative to the source tree, so that checkouts in other folders share one cache. A macro that no
# precompiled header mentions is no reason for it to refuse one.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(tandem_launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  if(TANDEM_PCH)
    list(APPEND tandem_launcher CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
  list(APPEND tandem_launcher ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${tandem_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${tandem_launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${tandem_launcher})
endif()

add_library(tandem_warnings INTERFACE)
target_compile_options(tandem_warnings INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wimplicit-fallthrough)
if(TANDEM_WERROR)
  target_compile_options(tandem_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(tandem_warnings INTERFACE -Wthread-safety)
else()
  # False positives of g++ 12 in the standard library and Abseil at -O2.
  target_compile_options(tandem_warnings INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow
                         -Wno-stringop-overread -Wno-array-bounds -Wno-restrict)
  if(TANDEM_UNITY)
    # It takes the sources that are compiled as one for headers.
    target_compile_options(tandem_warnings INTERFACE -Wno-subobject-linkage)
  endif()
endif()

if(TANDEM_SANITIZE STREQUAL thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # A fence orders atomics that ThreadSanitizer understands by themselves; it need not see the fence.
  add_compile_options(-Wno-tsan)
endif()
if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      # Neither can judge calls into libraries that are built without it.
      add_compile_options(-fno-sanitize=function,vptr)
    endif()
  endif()
endif()

if(TANDEM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(TANDEM_FAILPOINTS)
  add_compile_definitions(TANDEM_FAILPOINTS=1)
endif()
