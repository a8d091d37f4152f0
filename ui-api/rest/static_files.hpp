#pragma once
// The built web page, read into memory once.
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ui-api/rest/http.hpp"

namespace lockstep::ui_api {

class StaticFiles {
 public:
  /// Reads every file of a known kind below `folder`; none when the folder is not there.
  explicit StaticFiles(const std::filesystem::path& folder);
  /// The file at the request's path; index.html for "/" and for the page's own addresses, which have no dot.
  [[nodiscard]] std::optional<Response> find(const Request& request) const;

 private:
  struct File {
    std::string content_type;
    std::string content;
    std::string etag;
    bool immutable = false;  ///< its name carries a hash of its content
  };
  std::map<std::string, File> files_;  ///< by path, "/assets/x.js"
};

}  // namespace lockstep::ui_api
