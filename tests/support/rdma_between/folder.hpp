#pragma once
// The folder whose processes are neighbours: part of the names of their sockets, with files that switch the cable
// between them and one that keeps what went wrong.
//
//   cut      while it is there: every connection is lost, and none comes about
//   silent   while it is there: nothing gets through, and nobody is told; then everything goes on
//   faults   what users did against the rules of the seam, a sentence a line
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/un.h>

#include "engine/base/result.hpp"

namespace lockstep::test::between {

enum class Cable : std::uint8_t { good, silent, cut };

class Folder {
 public:
  [[nodiscard]] static engine::Result<Folder> open(std::string path);

  /// An abstract name (unix(7)): it ends with the process that listens there.
  [[nodiscard]] sockaddr_un name_of(std::string_view address) const;
  [[nodiscard]] Cable cable() const;
  void note_fault(std::string_view sentence) const;

 private:
  Folder(std::string path, std::string mark) : path_(std::move(path)), mark_(std::move(mark)) {}

  std::string path_;
  std::string mark_;  ///< the folder's, however it is called
};

}  // namespace lockstep::test::between
