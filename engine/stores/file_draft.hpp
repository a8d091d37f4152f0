#pragma once
// A file without its final name: it lies beside it as ".NAME.new". A draft is not made yet, or is being removed, and so
// it belongs to nobody: whoever makes or removes the file may overwrite it and remove it.
//
// Any thread; each call blocks as long as the file system takes, and what it did is durable when it returns.
#include <cstdint>
#include <string>

#include "engine/stores/file_store.hpp"

namespace lockstep::engine {

[[nodiscard]] std::string draft_name(const std::string& path);

/// `size` zeros, in the place of a draft that was left; on an error there is none. Errors: as of FileStore::create().
[[nodiscard]] Result<void> make_draft(const std::string& path, std::uint64_t size, Allocation allocation);

/// The draft takes its final name. On an error it stays a draft: somebody else has taken the name (refused).
[[nodiscard]] Result<void> keep_draft(const std::string& path);

/// The file loses its final name and is a draft again. On an error it may be either.
[[nodiscard]] Result<void> take_back(const std::string& path);

/// Succeeds when there is none. Refused while another process is making it.
[[nodiscard]] Result<void> remove_draft(const std::string& path);

}  // namespace lockstep::engine
