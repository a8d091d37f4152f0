#pragma once
// lockstepd as management sees it: docs/developer/rpc.md, as values.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

class DataPlane {
 public:
  virtual ~DataPlane() = default;
  /// Parameters and result are JSON. Refusals: data_plane_away (not connected, or no answer within `patience`: the
  /// outcome is then not known), conflict (it understood and said no; `detail` is its sentence).
  virtual Outcome<std::string> call(const std::string& method, const std::string& parameters,
                                    std::chrono::milliseconds patience) = 0;
};

struct DataPlaneEvents {
  /// Both are called on the connection's own thread and must not call DataPlane::call().
  std::function<void(bool)> connected;                   ///< or lost
  std::function<void(const std::string& params)> event;  ///< the params of an "event" notification, JSON
};

/// The control socket. Connects again for ever; every connection subscribes to events first.
class DataPlaneSocket final : public DataPlane {
 public:
  DataPlaneSocket(std::string path, DataPlaneEvents events);
  ~DataPlaneSocket() override;
  void start();  ///< connects from now on
  void stop();   ///< after this no callback runs
  Outcome<std::string> call(const std::string& method, const std::string& parameters,
                            std::chrono::milliseconds patience) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::mgmt
