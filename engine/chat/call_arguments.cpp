#include "engine/chat/call_arguments.h"

namespace yoke::engine {
namespace {

/// Whether `text` is a beginning of `null` in any case.
bool begins_null(std::string_view text) noexcept {
  constexpr std::string_view kNull = "null";
  if (text.size() > kNull.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] | 0x20) != kNull[i]) return false;
  }
  return true;
}

}  // namespace

void CallArguments::write_key(std::string& out) {
  out += keys_.size() == 1 ? '{' : ',';
  append_json_string(out, key_);
  out += ':';
}

void CallArguments::begin_value(std::string_view key, std::string& out) {
  key_ = key;
  held_.clear();
  if (!keys_.insert(key_).second) {
    mode_ = Mode::dropped;
    return;
  }
  write_key(out);
  switch (schema_->form(key_)) {
    case ToolSchema::Form::string:
      mode_ = Mode::streaming;
      out += '"';
      break;
    case ToolSchema::Form::string_or_null:
      mode_ = Mode::maybe_null;
      break;
    case ToolSchema::Form::when_complete:
      mode_ = Mode::held;
      break;
  }
}

void CallArguments::value_text(std::string_view text, std::string& out) {
  if (mode_ == Mode::streaming) append_json_escaped(out, text);
  if (mode_ != Mode::maybe_null && mode_ != Mode::held) return;
  held_ += text;
  if (mode_ == Mode::maybe_null && !begins_null(held_)) {
    mode_ = Mode::streaming;
    out += '"';
    append_json_escaped(out, held_);
  }
}

void CallArguments::end_value(std::string& out) {
  if (mode_ == Mode::streaming) out += '"';
  if (mode_ == Mode::maybe_null || mode_ == Mode::held) out += schema_->coerce(key_, held_);
  mode_ = Mode::none;
}

void CallArguments::close(std::string& out) {
  out += keys_.empty() ? "{}" : "}";
}

}  // namespace yoke::engine
