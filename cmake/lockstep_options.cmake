# Compiler settings that every target of the project shares, and the two ways a target is made.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(LOCKSTEP_FUZZ "Build the libFuzzer targets (needs clang)" OFF)

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
target_compile_definitions(lockstep_options INTERFACE SPDLOG_COMPILED_LIB)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # g++ is the judge of warnings; clang serves the fuzzers. libstdc++ 12 offers std::expected only to compilers that claim the final concepts of C++20; clang 16 has what it needs.
  target_compile_options(lockstep_options INTERFACE -Wno-builtin-macro-redefined -Wno-macro-redefined -Wno-error -Wno-shadow -D__cpp_concepts=202002L)
endif()
# Full RELRO: what a defect might overwrite of the dynamic linker's tables is read-only before main() runs.
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
# What overruns a buffer ends the process. Sanitizers and fuzzers see more, and want the calls as they are.
if(NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_FUZZ)
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
endif()

# For folders whose code is never in a hurry (management, its tests): a compiler spends half of its time on JSON and
# coroutines optimized for speed. Asserts and warnings are as everywhere.
macro(lockstep_not_hot)
  add_compile_options($<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-g1>)
endmacro()

# lockstep_layer(NAME DEPENDS ...): one static library of all .cpp files below the calling folder.
function(lockstep_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(pattern IN LISTS ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC lockstep_options ${ARG_DEPENDS})
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
