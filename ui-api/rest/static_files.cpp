#include "ui-api/rest/static_files.hpp"

#include <fmt/format.h>

#include "mgmt/control/secrets.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::ui_api {
namespace {

constexpr std::uintmax_t kMaxFile = std::uintmax_t{16} << 20;

const std::map<std::string, std::string>& content_types() {
  static const std::map<std::string, std::string> types = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
      {".json", "application/json"},
      {".txt", "text/plain; charset=utf-8"},
      {".webmanifest", "application/manifest+json"},
  };
  return types;
}

// Nothing but the node's own files runs, and nobody may frame the page.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src "
    "'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

}  // namespace

StaticFiles::StaticFiles(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || !std::filesystem::is_directory(folder, error)) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    const auto type = content_types().find(entry.path().extension().string());
    if (!entry.is_regular_file(error) || type == content_types().end() || entry.file_size(error) > kMaxFile) continue;
    auto content = mgmt::read_file(entry.path());
    if (!content) {
      mgmt::log_warning(fmt::format("The web page is not whole: {}", content.error().message));
      continue;
    }
    const std::string path = "/" + std::filesystem::relative(entry.path(), folder, error).generic_string();
    const std::string etag = fmt::format("\"{}\"", mgmt::sha256_hex(*content).substr(0, 32));
    files_[path] = {type->second, std::move(*content), etag, path.starts_with("/assets/")};
  }
}

std::optional<Response> StaticFiles::find(const Request& request) const {
  auto found = files_.find(request.path);
  if (found == files_.end() && request.path.find('.') == std::string::npos) found = files_.find("/index.html");
  if (found == files_.end()) return std::nullopt;
  const File& file = found->second;
  Response response;
  response.content_type = file.content_type;
  response.headers = {{"ETag", file.etag},
                      {"Cache-Control", file.immutable ? "public, max-age=31536000, immutable" : "no-cache"},
                      {"Content-Security-Policy", kPolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Frame-Options", "DENY"}};
  if (request.if_none_match == file.etag)
    response.status = 304;
  else
    response.body = file.content;
  return response;
}

}  // namespace lockstep::ui_api
