# Precompiled headers, one for management and one for the command line, where most of the time goes into reading Asio, JSON and
# CLI11. The data path has none: g++ 12 gives false warnings about inlined library code that comes out of one at -O2.
# g++ only: clang serves fuzzers and analysis, and sees that sources include what they use.
option(LOCKSTEP_PRECOMPILED "Precompile the headers that most sources include (g++)" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(LOCKSTEP_PRECOMPILED OFF)
endif()

add_library(lockstep_json STATIC ${CMAKE_SOURCE_DIR}/cmake/static/json.cpp)
target_link_libraries(lockstep_json PUBLIC nlohmann_json::nlohmann_json)
target_compile_options(lockstep_json PRIVATE ${lockstep_not_hot_options})

# lockstep_precompiled_header(NAME [OPTIONS ...] DEPENDS ...): cmake/precompiled/NAME.hpp, made once, for libraries.
function(lockstep_precompiled_header name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;OPTIONS" ${ARGN})
  if(NOT LOCKSTEP_PRECOMPILED)
    return()
  endif()
  set(owner lockstep_precompiled_${name})
  add_library(${owner} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled/nothing.cpp)
  target_link_libraries(${owner} PUBLIC lockstep_options ${ARG_DEPENDS})
  target_compile_options(${owner} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${owner} PRIVATE <cmake/precompiled/${name}.hpp>)
  set_target_properties(${owner} PROPERTIES LOCKSTEP_DEPENDS "${ARG_DEPENDS}")
endfunction()

# lockstep_precompiled(TARGET NAME): the target's sources begin with that header.
function(lockstep_precompiled target name)
  if(NOT LOCKSTEP_PRECOMPILED)
    return()
  endif()
  get_target_property(depends lockstep_precompiled_${name} LOCKSTEP_DEPENDS)
  if(depends)
    target_link_libraries(${target} PRIVATE ${depends})
  endif()
  target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_${name})
  target_compile_options(${target} PRIVATE -fpch-preprocess)  # for ccache
endfunction()

lockstep_precompiled_header(management DEPENDS lockstep_asio lockstep_fmt lockstep_json OPTIONS ${lockstep_not_hot_options})
lockstep_precompiled_header(command_line DEPENDS lockstep_fmt lockstep_json CLI11::CLI11 OPTIONS ${lockstep_not_hot_options})
