#include "engine/tokenizer/tokenizer_json.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <boost/json.hpp>
#include <initializer_list>
#include <unordered_map>

#include "config/log.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/utf8.h"

namespace yoke::engine {
namespace {

namespace json = boost::json;
using config::Error;
using config::ErrorKind;
using config::Result;

constexpr size_t kAddedTokenBytesMax = 4096;

std::string_view view(const json::string& text) {
  return {text.data(), text.size()};
}

std::string shown(std::string_view text) {
  constexpr size_t kShown = 60;
  const std::string_view begin = text.substr(0, utf8_valid_prefix(text.substr(0, kShown)));
  return fmt::format("\"{}\"{}", config::log_safe(begin), begin.size() < text.size() ? "…" : "");
}

/// A value for a message: what it is, without what it holds.
std::string shown(const json::value* found) {
  if (found == nullptr) return "nothing";
  if (const auto* text = found->if_string()) return shown(view(*text));
  if (const auto* array = found->if_array()) return fmt::format("an array of {}", array->size());
  if (const auto* object = found->if_object()) {
    const json::value* type = object->if_contains("type");
    return type != nullptr && type->is_string() ? "an object of type " + shown(type) : "an object";
  }
  return json::serialize(*found);
}

bool absent(const json::value* value) {
  return value == nullptr || value->is_null();
}

/// One pass over a file. Methods return false after the first problem, which is in error_.
class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Result<TokenizerFile> read(std::string_view text) {
    json::monotonic_resource memory;  // freed as a whole: a real file has half a million strings
    json::parser parser(&memory);
    const bool done = parse(text, parser) && read_root(parser.release());
    if (!done) return std::move(error_);
    return std::move(file_);
  }

 private:
  bool fail(ErrorKind kind, std::string what) {
    error_ = {kind, fmt::format("{}: {}", origin_, what)};
    return false;
  }
  bool invalid(std::string what) { return fail(ErrorKind::invalid_input, std::move(what)); }
  bool unsupported(std::string_view path, std::string_view wanted, const json::value* found) {
    return fail(ErrorKind::unsupported,
                fmt::format("{}: yoke reproduces only {}, found {}", path, wanted, shown(found)));
  }

  bool parse(std::string_view text, json::parser& parser) {
    json::error_code problem;
    const size_t parsed = parser.write(text.data(), text.size(), problem);
    if (!problem) return true;
    return invalid(
        fmt::format("not JSON at byte {} of {}: {}", parsed, text.size(), problem.message()));
  }

  // --- checks of single members; `path` names the object in messages ---

  const json::object* object_at(const json::value* value, std::string_view path) {
    if (value != nullptr && value->is_object()) return &value->get_object();
    invalid(fmt::format("{}: want an object, found {}", path, shown(value)));
    return nullptr;
  }
  // A member that this reader does not know may change what the pipeline does.
  bool only(const json::object& object, std::string_view path,
            std::initializer_list<std::string_view> known) {
    for (const auto& member : object) {
      const std::string_view key(member.key().data(), member.key().size());
      if (std::find(known.begin(), known.end(), key) == known.end())
        return fail(ErrorKind::unsupported, fmt::format("{}: unknown member {}", path, shown(key)));
    }
    return true;
  }
  bool null(const json::object& object, std::string_view path, std::string_view key) {
    const json::value* found = object.if_contains(key);
    return absent(found) || unsupported(fmt::format("{}{}", path, key), "null", found);
  }
  bool boolean(const json::object& object, std::string_view path, std::string_view key,
               bool wanted) {
    const json::value* found = object.if_contains(key);
    if (found != nullptr && found->is_bool() && found->get_bool() == wanted) return true;
    return unsupported(fmt::format("{}{}", path, key), wanted ? "true" : "false", found);
  }
  bool string(const json::object& object, std::string_view path, std::string_view key,
              std::string_view wanted) {
    const json::value* found = object.if_contains(key);
    if (found != nullptr && found->is_string() && view(found->get_string()) == wanted) return true;
    return unsupported(fmt::format("{}{}", path, key), shown(wanted), found);
  }
  bool token_id(const json::value* value, std::string_view of, int32_t& id) {
    const bool known = value != nullptr && value->is_int64() && value->get_int64() >= 0 &&
                       value->get_int64() < Vocabulary::kIdsMax;
    if (!known) {
      return invalid(fmt::format("token {}: want an id from 0 to {}, found {}", shown(of),
                                 Vocabulary::kIdsMax - 1, shown(value)));
    }
    id = static_cast<int32_t>(value->get_int64());
    return true;
  }

  // --- the file, top down ---

  bool read_root(const json::value& value) {
    const json::object* root = object_at(&value, "the file");
    if (root == nullptr) return false;
    return only(*root, "the file",
                {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                 "post_processor", "decoder", "model"}) &&
           (absent(root->if_contains("version")) || string(*root, "", "version", "1.0")) &&
           null(*root, "", "truncation") && null(*root, "", "padding") &&
           null(*root, "", "normalizer") &&
           read_pre_tokenizer(root->if_contains("pre_tokenizer")) &&
           read_post_processor(root->if_contains("post_processor")) &&
           read_decoder(root->if_contains("decoder")) &&
           read_added_tokens(root->if_contains("added_tokens")) &&
           read_model(root->if_contains("model"));
  }

  bool read_pre_tokenizer(const json::value* value) {
    constexpr std::string_view kPath = "pre_tokenizer";
    if (absent(value) || !value->is_object())
      return unsupported(kPath, "a Sequence of Split and ByteLevel", value);
    const json::object& sequence = value->get_object();
    if (!string(sequence, "pre_tokenizer.", "type", "Sequence") ||
        !only(sequence, kPath, {"type", "pretokenizers"}))
      return false;
    const json::value* steps = sequence.if_contains("pretokenizers");
    if (steps == nullptr || !steps->is_array() || steps->get_array().size() != 2)
      return unsupported("pre_tokenizer.pretokenizers", "Split and ByteLevel", steps);
    return read_split(&steps->get_array()[0]) && read_byte_level(&steps->get_array()[1]);
  }

  bool read_split(const json::value* value) {
    const json::object* split = object_at(value, "pre_tokenizer.pretokenizers[0]");
    constexpr std::string_view kPath = "pre_tokenizer.pretokenizers[0].";
    if (split == nullptr || !string(*split, kPath, "type", "Split") ||
        !string(*split, kPath, "behavior", "Isolated") ||
        !boolean(*split, kPath, "invert", false) ||
        !only(*split, kPath, {"type", "pattern", "behavior", "invert"}))
      return false;
    const json::value* pattern = split->if_contains("pattern");
    const json::value* regex = nullptr;
    if (pattern != nullptr && pattern->is_object() && pattern->get_object().size() == 1)
      regex = pattern->get_object().if_contains("Regex");
    if (regex == nullptr || !regex->is_string())
      return unsupported(fmt::format("{}pattern", kPath), "a Regex", pattern);
    file_.split_pattern = view(regex->get_string());
    return true;
  }

  bool read_byte_level(const json::value* value) {
    const json::object* step = object_at(value, "pre_tokenizer.pretokenizers[1]");
    constexpr std::string_view kPath = "pre_tokenizer.pretokenizers[1].";
    return step != nullptr && string(*step, kPath, "type", "ByteLevel") &&
           boolean(*step, kPath, "add_prefix_space", false) &&
           boolean(*step, kPath, "use_regex", false) &&
           only(*step, kPath, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  // ByteLevel here moves offsets only; other processors add tokens.
  bool read_post_processor(const json::value* value) {
    if (absent(value)) return true;
    const json::object* processor = object_at(value, "post_processor");
    return processor != nullptr && string(*processor, "post_processor.", "type", "ByteLevel");
  }

  bool read_decoder(const json::value* value) {
    const json::object* decoder = object_at(value, "decoder");
    return decoder != nullptr && string(*decoder, "decoder.", "type", "ByteLevel");
  }

  bool read_added_tokens(const json::value* value) {
    if (absent(value)) return true;
    if (!value->is_array())
      return invalid(fmt::format("added_tokens: want an array, found {}", shown(value)));
    for (size_t i = 0; i < value->get_array().size(); ++i)
      if (!read_added_token(value->get_array()[i], fmt::format("added_tokens[{}].", i)))
        return false;
    return true;
  }

  bool read_added_token(const json::value& value, const std::string& path) {
    const json::object* object = object_at(&value, path);
    if (object == nullptr) return false;
    const json::value* content = object->if_contains("content");
    if (content == nullptr || !content->is_string() || content->get_string().empty() ||
        content->get_string().size() > kAddedTokenBytesMax) {
      return invalid(fmt::format("{}content: want 1 to {} bytes of text, found {}", path,
                                 kAddedTokenBytesMax, shown(content)));
    }
    AddedToken token;
    token.content = view(content->get_string());
    const json::value* special = object->if_contains("special");
    if (special == nullptr || !special->is_bool())
      return invalid(fmt::format("{}special: want a boolean, found {}", path, shown(special)));
    token.special = special->get_bool();
    if (!only(*object, path,
              {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}) ||
        !token_id(object->if_contains("id"), token.content, token.id) ||
        !boolean(*object, path, "single_word", false) || !boolean(*object, path, "lstrip", false) ||
        !boolean(*object, path, "rstrip", false))
      return false;
    // Without a normalizer the flag only decides the order of two passes over the text: those that
    // are not normalized first. All of one kind are one pass.
    const json::value* normalized = object->if_contains("normalized");
    if (normalized == nullptr || !normalized->is_bool() ||
        (!added_ids_.empty() && normalized->get_bool() != normalized_))
      return unsupported(path + "normalized", "one value for all added tokens", normalized);
    normalized_ = normalized->get_bool();
    if (!added_ids_.emplace(view(content->get_string()), token.id).second)
      return invalid(fmt::format("{}content: {} is listed twice", path, shown(token.content)));
    file_.added_tokens.push_back(std::move(token));
    return true;
  }

  bool read_model(const json::value* value) {
    const json::object* model = object_at(value, "model");
    constexpr std::string_view kPath = "model.";
    if (model == nullptr || !string(*model, kPath, "type", "BPE") ||
        !only(*model, "model",
              {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
               "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}) ||
        !null(*model, kPath, "dropout") || !null(*model, kPath, "unk_token") ||
        !read_affix(*model, "continuing_subword_prefix") ||
        !read_affix(*model, "end_of_word_suffix"))
      return false;
    for (const std::string_view key : {"fuse_unk", "byte_fallback"})
      if (!absent(model->if_contains(key)) && !boolean(*model, kPath, key, false)) return false;
    const json::value* ignore = model->if_contains("ignore_merges");
    if (!absent(ignore) && !ignore->is_bool())
      return invalid(fmt::format("model.ignore_merges: want a boolean, found {}", shown(ignore)));
    file_.ignore_merges = !absent(ignore) && ignore->get_bool();
    return read_vocabulary(model->if_contains("vocab")) &&
           read_merges(model->if_contains("merges"));
  }

  // An empty affix changes nothing.
  bool read_affix(const json::object& model, std::string_view key) {
    const json::value* found = model.if_contains(key);
    if (absent(found) || (found->is_string() && found->get_string().empty())) return true;
    return unsupported(fmt::format("model.{}", key), "null", found);
  }

  bool read_vocabulary(const json::value* value) {
    const json::object* vocabulary = object_at(value, "model.vocab");
    if (vocabulary == nullptr) return false;
    for (const auto& member : *vocabulary)
      if (!read_token({member.key().data(), member.key().size()}, member.value())) return false;
    for (int byte = 0; byte < 256; ++byte) {
      if (file_.vocabulary.byte_token(static_cast<uint8_t>(byte)) < 0)
        return invalid(fmt::format("model.vocab: no token for byte 0x{:02X}", byte));
    }
    using Kind = Vocabulary::Kind;
    for (const AddedToken& token : file_.added_tokens) {
      if (!file_.vocabulary.add(token.id, token.content,
                                token.special ? Kind::special : Kind::added))
        return taken(token.content, token.id);
    }
    return true;
  }

  bool taken(std::string_view token, int32_t id) {
    return invalid(fmt::format("token {}: id {} is also that of {}", shown(token), id,
                               shown(file_.vocabulary.bytes(id))));
  }

  bool read_token(std::string_view symbols, const json::value& value) {
    int32_t id = 0;
    if (!token_id(&value, symbols, id)) return false;
    if (symbols.empty()) return invalid(fmt::format("model.vocab: token {} is empty", id));
    // Some files list added tokens here too. Ordinary text must not become one, so they stay out.
    if (const auto added = added_ids_.find(symbols); added != added_ids_.end()) {
      if (added->second == id) return true;
      return invalid(fmt::format("token {}: id {} in added_tokens, {} in model.vocab",
                                 shown(symbols), added->second, id));
    }
    left_.clear();
    const bool spelled = append_bytes_of_symbols(symbols, left_);
    return file_.vocabulary.add(
               id, spelled ? left_ : symbols,
               spelled ? Vocabulary::Kind::ordinary : Vocabulary::Kind::decode_only) ||
           taken(symbols, id);
  }

  bool read_merges(const json::value* value) {
    if (value == nullptr || !value->is_array())
      return invalid(fmt::format("model.merges: want an array, found {}", shown(value)));
    const json::array& merges = value->get_array();
    if (merges.size() > MergeTable::kMergesMax)
      return invalid(fmt::format("model.merges: want at most {}, found {}", MergeTable::kMergesMax,
                                 merges.size()));
    file_.merges.reserve(merges.size());
    for (const json::value& merge : merges)
      if (!read_merge(merge)) return false;
    return true;
  }

  // ["a", "b"], or "a b" in files of older versions.
  bool read_merge(const json::value& value) {
    std::string_view left, right;
    if (const auto* pair = value.if_array();
        pair != nullptr && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_string()) {
      left = view((*pair)[0].get_string());
      right = view((*pair)[1].get_string());
    } else if (const auto* text = value.if_string()) {
      const std::string_view both = view(*text);
      const size_t blank = std::min(both.find(' '), both.size());
      left = both.substr(0, blank);
      right = both.substr(std::min(blank + 1, both.size()));
    }
    const auto rank = file_.merges.size();
    if (left.empty() || right.empty()) {
      return invalid(
          fmt::format("model.merges[{}]: want a pair of tokens, found {}", rank, shown(&value)));
    }
    Merge merge;
    left_.clear();
    right_.clear();
    if (!find_part(left, left_, rank, merge.left) || !find_part(right, right_, rank, merge.right))
      return false;
    left_ += right_;
    const auto result = file_.vocabulary.find(left_);
    if (!result) {
      return invalid(fmt::format("model.merges[{}]: {} + {} is not a token of model.vocab", rank,
                                 shown(left), shown(right)));
    }
    merge.result = *result;
    file_.merges.push_back(merge);
    return true;
  }

  bool find_part(std::string_view symbols, std::string& bytes, size_t rank, int32_t& id) {
    const bool spelled = append_bytes_of_symbols(symbols, bytes);
    const auto found = spelled ? file_.vocabulary.find(bytes) : std::nullopt;
    if (!found) {
      return invalid(
          fmt::format("model.merges[{}]: {} is not a token of model.vocab", rank, shown(symbols)));
    }
    id = *found;
    return true;
  }

  std::string_view origin_;
  TokenizerFile file_;
  Error error_;
  std::unordered_map<std::string_view, int32_t> added_ids_;  // views the parsed file
  bool normalized_ = false;
  std::string left_, right_;  // bytes of the symbols at hand
};

}  // namespace

Result<TokenizerFile> read_tokenizer_json(std::string_view json, std::string_view origin) {
  return Reader(origin).read(json);
}

}  // namespace yoke::engine
