// What the tests of management and of the command line include, read by the compiler once.
#include <cmake/precompiled/json.hpp>
#include <cmake/precompiled/test.hpp>
