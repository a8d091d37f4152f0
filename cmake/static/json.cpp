// The members of JSON values, compiled once: cmake/precompiled/json.hpp tells the other sources that they are here.
#include <nlohmann/json.hpp>

template class nlohmann::basic_json<>;
