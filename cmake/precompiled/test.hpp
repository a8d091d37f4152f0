// What the tests include, read by the compiler once.
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <ostream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmake/precompiled/standard.hpp>
