#pragma once
#include <string_view>

namespace lockstep::ui_api {

/// ui-api/openapi/lockstep.yaml, as it was when this program was built.
[[nodiscard]] std::string_view openapi_yaml();

}  // namespace lockstep::ui_api
