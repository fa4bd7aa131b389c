#include "engine/eval/reference_file.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "config/check.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/json/json.h"

namespace yoke::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::string_view kFormat = "yoke-eval-1";

std::string tokens_name(size_t text) {
  return "text." + std::to_string(text) + ".tokens";
}
std::string logits_name(size_t text) {
  return "text." + std::to_string(text) + ".logits";
}

/// The header: all tokens first, then all logits, so that the large part is one run of rows.
std::string header_of(const ReferenceOrigin& origin, std::span<const ReferenceText> texts) {
  Json::Object metadata = {{"format", Json::string(std::string(kFormat))},
                           {"model", Json::string(origin.model)},
                           {"identity", Json::string(origin.identity)},
                           {"precision", Json::string(origin.precision)},
                           {"vocab", Json::string(std::to_string(origin.vocab))}};
  Json::Object members;
  uint64_t offset = 0;
  const auto add = [&](std::string name, const char* dtype, Json::Array shape, uint64_t bytes) {
    members.emplace_back(
        std::move(name),
        Json::object({{"dtype", Json::string(dtype)},
                      {"shape", Json::array(std::move(shape))},
                      {"data_offsets",
                       Json::array({Json::integer(static_cast<int64_t>(offset)),
                                    Json::integer(static_cast<int64_t>(offset + bytes))})}}));
    offset += bytes;
  };
  for (size_t i = 0; i < texts.size(); ++i) {
    metadata.emplace_back("text." + std::to_string(i), Json::string(texts[i].name));
    const auto rows = static_cast<int64_t>(texts[i].tokens.size());
    add(tokens_name(i), "I32", {Json::integer(rows)}, texts[i].tokens.size() * sizeof(int32_t));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto rows = static_cast<int64_t>(texts[i].tokens.size());
    add(logits_name(i), "F32", {Json::integer(rows), Json::integer(origin.vocab)},
        texts[i].tokens.size() * static_cast<size_t>(origin.vocab) * sizeof(float));
  }
  members.insert(members.begin(), {"__metadata__", Json::object(std::move(metadata))});
  std::string text = to_json(Json::object(std::move(members)));
  text.append((8 - text.size() % 8) % 8, ' ');  // rows are aligned in the file
  return text;
}

}  // namespace

// --- writing
// --------------------------------------------------------------------------------------------

ReferenceWriter::ReferenceWriter(std::filesystem::path path, size_t vocab, uint64_t rows)
    : path_(std::move(path)), partial_(path_), vocab_(vocab), rows_left_(rows) {
  partial_ += ".partial";
  file_.reset(std::fopen(partial_.c_str(), "wbe"));
}

ReferenceWriter::~ReferenceWriter() {
  if (!file_) return;  // finished, or moved from
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

config::Result<ReferenceWriter> ReferenceWriter::create(const std::filesystem::path& path,
                                                        const ReferenceOrigin& origin,
                                                        std::span<const ReferenceText> texts) {
  YOKE_CHECK(origin.vocab >= 1, "a reference without vocabulary");
  if (texts.empty()) return config::invalid_input("a reference needs at least one text");
  uint64_t rows = 0;
  for (const ReferenceText& text : texts) {
    if (text.tokens.empty())
      return config::invalid_input("the text " + quote(text.name) + " has no tokens");
    rows += text.tokens.size();
  }
  ReferenceWriter writer(path, static_cast<size_t>(origin.vocab), rows);
  if (!writer.file_)
    return config::Error{config::ErrorKind::io,
                         "cannot write " + writer.partial_.string() + ": " + std::strerror(errno)};
  const std::string header = header_of(origin, texts);
  const uint64_t length = header.size();
  if (auto done = writer.write(&length, sizeof length); !done.ok()) return done.error();
  if (auto done = writer.write(header.data(), header.size()); !done.ok()) return done.error();
  for (const ReferenceText& text : texts) {
    auto done = writer.write(text.tokens.data(), text.tokens.size() * sizeof(int32_t));
    if (!done.ok()) return done.error();
  }
  return writer;
}

config::Result<void> ReferenceWriter::write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_.get()) == bytes) return {};
  return config::Error{config::ErrorKind::io,
                       "cannot write " + partial_.string() + ": " + std::strerror(errno)};
}

config::Result<void> ReferenceWriter::add(std::span<const float> row) {
  YOKE_CHECK(row.size() == vocab_ && rows_left_ > 0, "a row that the header does not announce");
  --rows_left_;
  return write(row.data(), row.size_bytes());
}

config::Result<void> ReferenceWriter::finish() {
  YOKE_CHECK(rows_left_ == 0, "rows are missing");
  std::error_code error;
  if (std::fclose(file_.release()) != 0) error = {errno, std::generic_category()};
  if (!error) std::filesystem::rename(partial_, path_, error);
  if (!error) return {};
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
  return config::Error{config::ErrorKind::io,
                       "cannot write " + path_.string() + ": " + error.message()};
}

// --- reading
// --------------------------------------------------------------------------------------------

config::Result<ReferenceFile> ReferenceFile::open(const std::filesystem::path& path) {
  auto file = File::open(path);
  if (!file.ok()) return file.error();
  ReferenceFile out(std::move(*file));
  const auto wrong = [&](const std::string& what) {
    return config::invalid_input(out.file_.name() + ": " + what);
  };
  auto header = read_header_text(out.file_);
  if (!header.ok()) return header.error();
  std::unordered_map<std::string, std::string> metadata;
  auto tensors = parse_safetensors_header(*header, out.file_.size(), out.file_.name(), &metadata);
  if (!tensors.ok()) return tensors.error();
  if (metadata["format"] != kFormat)
    return wrong("is no reference of this program (metadata `format` is " +
                 quote(metadata["format"]) + ", wanted \"" + std::string(kFormat) +
                 "\"); make one with yoke eval --save FILE");
  out.origin_ = {metadata["model"], metadata["identity"], metadata["precision"], 0};
  const std::string& vocab = metadata["vocab"];
  const auto [end, parsed] =
      std::from_chars(vocab.data(), vocab.data() + vocab.size(), out.origin_.vocab);
  if (parsed != std::errc() || end != vocab.data() + vocab.size() || out.origin_.vocab < 1)
    return wrong("metadata `vocab` is no positive number: " + quote(vocab));

  std::unordered_map<std::string, const TensorInfo*> by_name;
  for (const TensorInfo& tensor : *tensors) by_name[tensor.name] = &tensor;
  for (size_t i = 0; by_name.contains(tokens_name(i)); ++i) {
    const TensorInfo& tokens = *by_name[tokens_name(i)];
    if (tokens.dtype != "I32" || tokens.shape.size() != 1 || tokens.shape[0] < 1)
      return wrong(tokens.name + " is " + tokens.dtype + " " + shape_text(tokens.shape) +
                   ", wanted I32 [tokens]");
    const auto logits = by_name.find(logits_name(i));
    const std::vector<int64_t> wanted = {tokens.shape[0], out.origin_.vocab};
    if (logits == by_name.end() || logits->second->dtype != "F32" ||
        logits->second->shape != wanted)
      return wrong(logits_name(i) + " must be F32 " + shape_text(wanted));
    ReferenceText text;
    text.name = printable(metadata["text." + std::to_string(i)]);
    text.tokens.resize(static_cast<size_t>(tokens.shape[0]));  // its bytes are in the file
    auto read = out.file_.read(tokens.file_offset, std::as_writable_bytes(std::span(text.tokens)));
    if (!read.ok()) return read.error();
    for (const int32_t id : text.tokens) {
      if (id < 0 || id >= out.origin_.vocab)
        return wrong(tokens.name + " holds id " + std::to_string(id) + " of a vocabulary of " +
                     std::to_string(out.origin_.vocab));
    }
    out.texts_.push_back(std::move(text));
    out.offsets_.push_back(logits->second->file_offset);
  }
  if (out.texts_.empty()) return wrong("holds no text");
  return out;
}

config::Result<void> ReferenceFile::read_row(size_t text, size_t position,
                                             std::span<float> out) const {
  YOKE_CHECK(text < texts_.size() && position < texts_[text].tokens.size() &&
                 out.size() == static_cast<size_t>(origin_.vocab),
             "a row that is not in the reference");
  return file_.read(offsets_[text] + position * out.size_bytes(), std::as_writable_bytes(out));
}

}  // namespace yoke::engine
