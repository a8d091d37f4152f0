#pragma once
// Looks at the system calls that make and remove files, in this test program, before each is carried out: to hold one
// up as a slow file system does, or to end the process there as a power cut does.
#include <functional>

namespace lockstep::test {

class FileCallHook {
 public:
  /// Called with the name of the call, on the thread that makes it. One hook at a time.
  explicit FileCallHook(std::function<void(const char* call)> before);
  ~FileCallHook();  ///< no such call is under way
  FileCallHook(const FileCallHook&) = delete;
  FileCallHook& operator=(const FileCallHook&) = delete;
};

}  // namespace lockstep::test
