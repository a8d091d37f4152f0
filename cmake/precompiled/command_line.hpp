// What the command line's sources include, read by the compiler once.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <CLI/CLI.hpp>

#include <cmake/precompiled/json.hpp>
#include <cmake/precompiled/standard.hpp>
