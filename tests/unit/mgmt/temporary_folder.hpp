#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace lockstep::test {

/// A folder of a test's own, removed with it. In memory where it can be: databases wait for each of their writes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const std::filesystem::path memory = "/dev/shm";
    const auto above = std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    std::string name = (above / "lockstep-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::test
