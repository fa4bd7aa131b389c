#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json/basic_parser_impl.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/checkpoint/file.h"
#include "engine/checkpoint/strict_json.h"

namespace yoke::engine {

namespace json = boost::json;
using config::invalid_input;
using config::Result;

static_assert(std::endian::native == std::endian::little, "tensor bytes are used as they lie");

namespace {

constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxDimensions = 8;
constexpr uint64_t kLengthBytes = 8;

/// Bytes of one element, 0 for a type that the format does not know.
uint64_t element_bytes(std::string_view dtype) {
  struct Entry {
    std::string_view name;
    uint64_t bytes;
  };
  static constexpr std::array<Entry, 16> kTypes = {{{"BF16", 2},
                                                    {"F16", 2},
                                                    {"F32", 4},
                                                    {"I16", 2},
                                                    {"I32", 4},
                                                    {"F64", 8},
                                                    {"I64", 8},
                                                    {"U64", 8},
                                                    {"U32", 4},
                                                    {"U16", 2},
                                                    {"U8", 1},
                                                    {"I8", 1},
                                                    {"BOOL", 1},
                                                    {"F8_E4M3", 1},
                                                    {"F8_E5M2", 1},
                                                    {"F8_E8M0", 1}}};
  for (const Entry& entry : kTypes)
    if (entry.name == dtype) return entry.bytes;
  return 0;
}

/// One header entry as spelled; nothing in it is trusted yet.
struct RawEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::array<uint64_t, 2> offsets{};
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

/// SAX handler of a header: {name: {"dtype": s, "shape": [..], "data_offsets": [b, e]}, …,
/// "__metadata__": {s: s}}. Anything else stops the parse with a sentence in error().
class HeaderHandler {
 public:
  using error_code = json::error_code;
  using string_view = json::string_view;
  static constexpr std::size_t max_object_size = -1;
  static constexpr std::size_t max_array_size = -1;
  static constexpr std::size_t max_key_size = -1;
  static constexpr std::size_t max_string_size = -1;

  const std::string& error() const { return error_; }
  std::vector<RawEntry>& entries() { return entries_; }
  std::unordered_map<std::string, std::string>& metadata() { return metadata_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code& ec) {
    switch (place_) {
      case Place::document:
        place_ = Place::top;
        return true;
      case Place::top:
        if (key_ == "__metadata__") {
          if (std::exchange(has_metadata_, true)) return fail(ec, "'__metadata__' appears twice");
          place_ = Place::metadata;
          return true;
        }
        entries_.emplace_back();
        entries_.back().name = key_;
        place_ = Place::entry;
        return true;
      default:
        return wrong_kind(ec, "an object");
    }
  }
  bool on_object_end(std::size_t, error_code& ec) {
    switch (place_) {
      case Place::entry:
        place_ = Place::top;
        return complete(ec);
      case Place::metadata:
        place_ = Place::top;
        return true;
      default:
        place_ = Place::document;
        return true;
    }
  }

  bool on_array_begin(error_code& ec) {
    if (place_ != Place::entry || field_ == Field::dtype) return wrong_kind(ec, "an array");
    place_ = field_ == Field::shape ? Place::shape : Place::offsets;
    return true;
  }
  bool on_array_end(std::size_t n, error_code& ec) {
    const bool offsets = place_ == Place::offsets;
    place_ = Place::entry;
    if (offsets && n != 2)
      return fail(ec, subject() + ": data_offsets has " + std::to_string(n) + " numbers, wanted 2");
    return true;
  }

  bool on_key_part(string_view s, std::size_t n, error_code& ec) {
    if (n == s.size()) key_.clear();
    if (n > kMaxNameBytes)
      return fail(ec, "a name is longer than " + std::to_string(kMaxNameBytes) +
                          " bytes: " + quote(key_ + std::string(s.data(), s.size())));
    key_.append(s.data(), s.size());
    return true;
  }
  bool on_key(string_view s, std::size_t n, error_code& ec) {
    if (!on_key_part(s, n, ec)) return false;
    return place_ != Place::entry || select_field(ec);
  }

  bool on_string_part(string_view s, std::size_t n, error_code& ec) {
    if (n == s.size()) text_.clear();
    const bool is_dtype = place_ == Place::entry && field_ == Field::dtype;
    if (!is_dtype && place_ != Place::metadata) return wrong_kind(ec, "a string");
    text_.append(s.data(), s.size());
    return true;
  }
  bool on_string(string_view s, std::size_t n, error_code& ec) {
    if (!on_string_part(s, n, ec)) return false;
    if (place_ == Place::entry) {
      entries_.back().dtype = text_;
      return true;
    }
    if (!metadata_.emplace(key_, text_).second)
      return fail(ec, "__metadata__ has " + quote(key_) + " twice");
    return true;
  }

  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(int64_t value, string_view, error_code& ec) {
    if (value < 0) return fail(ec, subject() + ": " + field_name() + " holds a negative number");
    return number(static_cast<uint64_t>(value), ec);
  }
  bool on_uint64(uint64_t value, string_view, error_code& ec) { return number(value, ec); }
  bool on_double(double, string_view, error_code& ec) {
    return fail(ec, subject() + ": " + field_name() +
                        " holds a number that is fractional or too large for 64 bits");
  }
  bool on_bool(bool, error_code& ec) { return wrong_kind(ec, "a boolean"); }
  bool on_null(error_code& ec) { return wrong_kind(ec, "null"); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  enum class Place { document, top, metadata, entry, shape, offsets };
  enum class Field { dtype, shape, offsets };

  bool fail(error_code& ec, std::string message) {
    error_ = std::move(message);
    ec = json::error::syntax;
    return false;
  }

  bool wrong_kind(error_code& ec, const char* found) {
    switch (place_) {
      case Place::document:
        return fail(ec, std::string("wanted an object at the top of the header, found ") + found);
      case Place::top:
        return fail(ec, quote(key_) + " is " + found + ", wanted an object that describes it");
      case Place::metadata:
        return fail(ec, "__metadata__ entry " + quote(key_) + " is " + found + ", wanted a string");
      default:
        return fail(ec, subject() + ": " + field_name() + " holds " + found + ", wanted " +
                            (field_ == Field::dtype ? "a string" : "whole numbers"));
    }
  }

  std::string subject() const {
    return entries_.empty() ? "the header" : "tensor " + quote(entries_.back().name);
  }
  std::string field_name() const {
    switch (place_) {
      case Place::document:
      case Place::top:
      case Place::metadata:
        return quote(key_);
      default:
        break;
    }
    return field_ == Field::dtype ? "dtype" : field_ == Field::shape ? "shape" : "data_offsets";
  }

  bool select_field(error_code& ec) {
    RawEntry& entry = entries_.back();
    bool* seen = nullptr;
    if (key_ == "dtype") {
      field_ = Field::dtype;
      seen = &entry.has_dtype;
    } else if (key_ == "shape") {
      field_ = Field::shape;
      seen = &entry.has_shape;
    } else if (key_ == "data_offsets") {
      field_ = Field::offsets;
      seen = &entry.has_offsets;
    } else {
      return fail(ec, subject() + ": unknown key " + quote(key_) +
                          ", wanted dtype, shape and data_offsets");
    }
    if (std::exchange(*seen, true)) return fail(ec, subject() + ": " + key_ + " appears twice");
    offset_count_ = 0;
    return true;
  }

  bool number(uint64_t value, error_code& ec) {
    if (place_ == Place::offsets) {
      if (offset_count_ < 2) entries_.back().offsets[offset_count_] = value;
      ++offset_count_;
      return true;
    }
    if (place_ != Place::shape) return wrong_kind(ec, "a number");
    std::vector<int64_t>& shape = entries_.back().shape;
    if (value > static_cast<uint64_t>(INT64_MAX))
      return fail(ec, subject() + ": dimension " + std::to_string(value) + " is too large");
    if (shape.size() == kMaxDimensions)
      return fail(ec, subject() + ": more than " + std::to_string(kMaxDimensions) + " dimensions");
    shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool complete(error_code& ec) {
    const RawEntry& entry = entries_.back();
    for (const auto& [seen, name] : {std::pair{entry.has_dtype, "dtype"},
                                     {entry.has_shape, "shape"},
                                     {entry.has_offsets, "data_offsets"}})
      if (!seen) return fail(ec, subject() + ": " + name + " is missing");
    return true;
  }

  std::vector<RawEntry> entries_;
  std::unordered_map<std::string, std::string> metadata_;
  bool has_metadata_ = false;
  Place place_ = Place::document;
  Field field_ = Field::dtype;
  size_t offset_count_ = 0;
  std::string key_;
  std::string text_;
  std::string error_;
};

/// Elements × bytes per element, or nullopt when that leaves 64 bits.
std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t per_element) {
  uint64_t bytes = per_element;
  for (const int64_t d : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) return std::nullopt;
  return bytes;
}

struct ParsedHeader {
  std::vector<TensorInfo> tensors;  // ascending file_offset
  std::unordered_map<std::string, std::string> metadata;
};

/// The entry with its offsets checked against its own shape and the data section.
Result<TensorInfo> checked_entry(RawEntry&& raw, uint64_t data_begin, uint64_t data_bytes,
                                 const std::string& where) {
  const auto subject = [&] { return where + "tensor " + quote(raw.name) + ": "; };
  const uint64_t per_element = element_bytes(raw.dtype);
  if (per_element == 0)
    return invalid_input(subject() + "unknown dtype " + quote(raw.dtype) +
                         ": the file is damaged or written by a newer format");
  const auto [begin, end] = raw.offsets;
  const std::string range = "[" + std::to_string(begin) + ", " + std::to_string(end) + "]";
  if (end < begin) return invalid_input(subject() + "data_offsets " + range + " run backwards");
  if (end > data_bytes)
    return invalid_input(subject() + "data_offsets " + range +
                         " reach beyond the file, which has " + std::to_string(data_bytes) +
                         " bytes of data: it is truncated, download it again");
  const std::optional<uint64_t> wanted = tensor_bytes(raw.shape, per_element);
  if (!wanted || *wanted != end - begin)
    return invalid_input(subject() + raw.dtype + " " + shape_text(raw.shape) + " wants " +
                         (wanted ? std::to_string(*wanted) : "more than 2^64") +
                         " bytes, data_offsets " + range + " hold " + std::to_string(end - begin));
  TensorInfo info;
  info.name = std::move(raw.name);
  info.dtype = std::move(raw.dtype);
  info.shape = std::move(raw.shape);
  info.file_offset = data_begin + begin;
  info.bytes = end - begin;
  return info;
}

/// Neighbours in file order touch each other, the first begins the data and the last ends it (the
/// format allows neither overlap nor holes).
Result<void> check_layout(const std::vector<TensorInfo>& tensors, uint64_t data_begin,
                          uint64_t file_size, const std::string& where) {
  uint64_t position = data_begin;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.file_offset < position)
      return invalid_input(where + "tensors " + quote(previous->name) + " and " +
                           quote(tensor.name) + " overlap: the file is damaged");
    if (tensor.file_offset > position)
      return invalid_input(where + std::to_string(tensor.file_offset - position) +
                           " bytes before tensor " + quote(tensor.name) +
                           " belong to no tensor: the file is damaged");
    position += tensor.bytes;
    previous = &tensor;
  }
  if (position != file_size)
    return invalid_input(where + std::to_string(file_size - position) +
                         " bytes after the last tensor belong to no tensor: the file is damaged");
  return {};
}

Result<void> check_unique(const std::vector<TensorInfo>& tensors, const std::string& where) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return invalid_input(where + "tensor " + quote(*twice) + " appears twice in the header");
  return {};
}

Result<ParsedHeader> parse_header(std::string_view header, uint64_t file_size,
                                  std::string_view file_name) {
  const std::string where = std::string(file_name) + ": ";
  if (header.size() > kMaxSafetensorsHeader || file_size < kLengthBytes ||
      header.size() > file_size - kLengthBytes)
    return invalid_input(where + "a header of " + std::to_string(header.size()) +
                         " bytes does not fit in a file of " + std::to_string(file_size) +
                         " bytes");
  json::parse_options options;
  options.max_depth = 4;  // top, entry, list
  json::basic_parser<HeaderHandler> parser(options);
  json::error_code ec;
  const size_t used = parser.write_some(false, header.data(), header.size(), ec);
  HeaderHandler& handler = parser.handler();
  if (!handler.error().empty()) return invalid_input(where + handler.error());
  if (!ec && used < header.size()) ec = json::error::extra_data;
  if (ec)
    return invalid_input(where + "header " + json_fault(header, used, ec.message()) +
                         ": the file is damaged or not safetensors");

  const uint64_t data_begin = kLengthBytes + header.size();
  ParsedHeader parsed;
  parsed.metadata = std::move(handler.metadata());
  parsed.tensors.reserve(handler.entries().size());
  for (RawEntry& raw : handler.entries()) {
    auto entry = checked_entry(std::move(raw), data_begin, file_size - data_begin, where);
    if (!entry) return entry.error();
    parsed.tensors.push_back(std::move(*entry));
  }
  if (auto unique = check_unique(parsed.tensors, where); !unique) return unique.error();
  // Empty tensors first among equals, so that they lie between their neighbours.
  std::sort(
      parsed.tensors.begin(), parsed.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
        return std::tie(a.file_offset, a.bytes, a.name) < std::tie(b.file_offset, b.bytes, b.name);
      });
  if (auto layout = check_layout(parsed.tensors, data_begin, file_size, where); !layout)
    return layout.error();
  return parsed;
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ",";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

Result<std::string> read_header_text(const File& file) {
  const std::string where = file.name() + ": ";
  uint64_t length = 0;
  if (file.size() < kLengthBytes)
    return invalid_input(where + std::to_string(file.size()) +
                         " bytes are too few for a safetensors file: download it again");
  if (auto read = file.read(0, std::as_writable_bytes(std::span(&length, 1))); !read)
    return read.error();
  if (length > kMaxSafetensorsHeader || length > file.size() - kLengthBytes)
    return invalid_input(
        where + "header length " + std::to_string(length) + ", but the file has " +
        std::to_string(file.size()) + " bytes and at most " +
        std::to_string(kMaxSafetensorsHeader) +
        " are accepted for a header: the file is damaged, truncated or not safetensors");
  std::string header(static_cast<size_t>(length), '\0');
  if (auto read = file.read(kLengthBytes, std::as_writable_bytes(std::span(header))); !read)
    return read.error();
  return header;
}

Result<std::vector<TensorInfo>> parse_safetensors_header(
    std::string_view header, uint64_t file_size, std::string_view file_name,
    std::unordered_map<std::string, std::string>* metadata) {
  auto parsed = parse_header(header, file_size, file_name);
  if (!parsed) return parsed.error();
  if (metadata != nullptr) *metadata = std::move(parsed->metadata);
  return std::move(parsed->tensors);
}

Result<std::vector<TensorInfo>> read_safetensors_header(const std::filesystem::path& path) {
  auto file = File::open(path);
  if (!file) return file.error();
  auto header = read_header_text(*file);
  if (!header) return header.error();
  return parse_safetensors_header(*header, file->size(), file->name());
}

}  // namespace yoke::engine
