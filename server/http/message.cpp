#include "server/http/message.h"

#include <algorithm>
#include <charconv>

namespace yoke::server {

namespace {

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  // A line break inside a value would let it forge further fields.
  std::copy_if(value.begin(), value.end(), std::back_inserter(out),
               [](char c) { return c != '\r' && c != '\n' && c != '\0'; });
  out += "\r\n";
}

}  // namespace

void Headers::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

const std::string* Headers::find(std::string_view name) const noexcept {
  for (const auto& [field, value] : fields_)
    if (equal_ignoring_case(field, name)) return &value;
  return nullptr;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

bool is_usable_request_id(std::string_view id) noexcept {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c >= 0x21 && c <= 0x7E; });
}

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Unknown";
  }
}

std::string format_head(const ResponseHead& head, const Headers& headers) {
  std::string out = head.version == 10 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += std::to_string(head.status);
  out += ' ';
  out += reason_phrase(head.status);
  out += "\r\n";
  if (!head.content_type.empty()) append_field(out, "content-type", head.content_type);
  if (head.content_length)
    append_field(out, "content-length", std::to_string(*head.content_length));
  if (head.chunked) append_field(out, "transfer-encoding", "chunked");
  if (!head.request_id.empty()) append_field(out, "x-request-id", head.request_id);
  for (const auto& [name, value] : headers.fields()) append_field(out, name, value);
  append_field(out, "connection", head.keep_alive ? "keep-alive" : "close");
  out += "\r\n";
  return out;
}

std::string format_chunk(std::string_view data) {
  char size[16];
  const auto end = std::to_chars(size, size + sizeof size, data.size(), 16).ptr;
  std::string out(size, end);
  out.reserve(out.size() + data.size() + 4);
  out += "\r\n";
  out += data;
  out += "\r\n";
  return out;
}

}  // namespace yoke::server
