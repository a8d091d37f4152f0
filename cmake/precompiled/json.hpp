// JSON for a precompiled header: what is declared here is compiled once, in cmake/static/json.cpp, instead of in each source.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
