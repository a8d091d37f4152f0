# Compiler settings that every target of the project shares, and the two ways a target is made.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(LOCKSTEP_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(LOCKSTEP_UNITY "" CACHE STRING "Sources to compile several at a time: cold (management), all, or none")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT LOCKSTEP_FUZZ)
  add_link_options(-fuse-ld=mold)
endif()

# Asserts guard invariants and stay on in every build.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")

add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(lockstep_options INTERFACE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # g++ is the judge of warnings; clang serves the fuzzers. libstdc++ 12 offers std::expected only to compilers that claim the final concepts of C++20; clang 16 has what it needs.
  target_compile_options(lockstep_options INTERFACE -Wno-builtin-macro-redefined -Wno-macro-redefined -Wno-error -Wno-shadow -D__cpp_concepts=202002L)
endif()
# Full RELRO: what a defect might overwrite of the dynamic linker's tables is read-only before main() runs.
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
# What overruns a buffer ends the process. Sanitizers and fuzzers see more, and want the calls as they are. What is built
# once, to be looked at, goes without: these checks are an eighth of the compiler's time.
if(NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_FUZZ AND NOT LOCKSTEP_UNITY STREQUAL "all")
  add_compile_options(-fstack-protector-strong -fstack-clash-protection)
  add_compile_definitions($<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=3>)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection=full)
  endif()
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  if(LOCKSTEP_SANITIZE MATCHES "thread")
    # GCC warns that std::atomic_thread_fence is not understood by TSan wherever a library header uses one.
    target_compile_options(lockstep_options INTERFACE -Wno-error=tsan)
  endif()
  # GCC takes members of a variant for uninitialized once the sanitizers' checks stand between.
  target_compile_options(lockstep_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>)
endif()

# For folders whose code is never in a hurry (management, its tests): a compiler spends half of its time on JSON and
# coroutines optimized for speed. Asserts and warnings are as everywhere.
macro(lockstep_not_hot)
  add_compile_options($<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-g1>)
  if(LOCKSTEP_UNITY STREQUAL "all")
    # Built once, to be looked at. _FORTIFY_SOURCE needs an optimizer.
    add_compile_options(-O0 -U_FORTIFY_SOURCE)
  endif()
endmacro()

# lockstep_unity(TARGET cold|hot): its sources are compiled up to 32 at a time (128 where all is built once), since most of what one
# costs is headers and templates that its neighbours have, too. Hot is the data path: the release build compiles its sources one
# by one, so that one is changed and built again in seconds, as the mutants are.
function(lockstep_unity target warmth)
  if(NOT LOCKSTEP_UNITY STREQUAL "all" AND NOT LOCKSTEP_UNITY STREQUAL warmth)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes what such a unit includes for a header, in which a type of an anonymous namespace would be another one each time.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  set(most 32)
  if(LOCKSTEP_UNITY STREQUAL "all")
    set(most 128)
  endif()
  math(EXPR units "(${count} + ${most} - 1) / ${most}")
  set(index 0)
  foreach(source IN LISTS sources)
    math(EXPR unit "${index} * ${units} / ${count}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# lockstep_layer(NAME [COLD] DEPENDS ...): one static library of all .cpp files below the calling folder.
function(lockstep_layer name)
  cmake_parse_arguments(ARG "COLD" "" "DEPENDS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(pattern IN LISTS ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC lockstep_options ${ARG_DEPENDS})
    if(ARG_COLD)
      lockstep_unity(${name} cold)
    else()
      lockstep_unity(${name} hot)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE lockstep_options ${ARG_DEPENDS})
  endif()
endfunction()

# lockstep_test(NAME DEPENDS ... [LABELS ...]): one GoogleTest executable of all .cpp files in the calling folder,
# each of its tests known to ctest under the label(s).
function(lockstep_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "DEPENDS;LABELS;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(NOT ARG_SOURCES)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lockstep_options ${ARG_DEPENDS} GTest::gmock GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
