#pragma once
// What is said on the link, as the trace shows it.
#include <cstddef>
#include <span>
#include <string>

namespace lockstep::simulation {

/// Of the mirror's header, with the frame of a link session over several paths before it or without.
[[nodiscard]] std::string read_message(std::span<const std::byte> header);

}  // namespace lockstep::simulation
