#include "engine/chat/output_parser.h"

#include <utility>

#include "engine/chat/blanks.h"
#include "engine/chat/call_arguments.h"
#include "engine/chat/output_text.h"
#include "engine/chat/tags.h"
#include "engine/chat/tool_schema.h"

namespace yoke::engine {
namespace {

constexpr TagSet kCallTags = {Tag::tool_call,   Tag::tool_call_end, Tag::arg_key,
                              Tag::arg_key_end, Tag::arg_value,     Tag::arg_value_end};

bool is_newline(char c) noexcept {
  return c == '\n' || c == '\r';
}

enum class State {
  reasoning,
  content,
  bad_call,   ///< inside a block that is no call: its text is content
  call_name,  ///< after <tool_call>, nothing of the call is out
  call_gap,   ///< inside a call between pairs; what stands here is ignored
  call_key,
  call_key_done,  ///< between </arg_key> and <arg_value>
  call_value,
};

}  // namespace

struct OutputParser::Impl {
  Impl(const Tokenizer& tokens, const OutputParserOptions& options)
      : tokenizer(&tokens),
        tags(tokens),
        thinking(options.thinking || options.starts_in_reasoning),
        single_call(options.single_call),
        tools(options.extract_calls ? options.tools : nullptr),
        state(options.starts_in_reasoning ? State::reasoning : State::content) {}

  // --- tokens to text and tags ---

  void feed(int32_t id, std::vector<OutputEvent>& events);
  void finish(bool cut, std::vector<OutputEvent>& events);
  void bytes(std::string_view piece, EventSink& out);
  void release_pending(EventSink& out);
  void end_of_text(EventSink& out);
  void text(std::string_view piece, EventSink& out);
  void tag(Tag tag, EventSink& out);
  TagSet terminals() const noexcept;

  // --- what text means in each state ---

  void valid_text(std::string_view piece, EventSink& out);
  void reasoning_text(std::string_view piece, EventSink& out);
  void content_text(std::string_view piece, EventSink& out);
  void content_rest(std::string_view piece, EventSink& out);
  void name_text(std::string_view piece, EventSink& out);

  // --- what tags do ---

  void content_tag(Tag tag, EventSink& out);
  void name_tag(Tag tag, EventSink& out);
  void argument_tag(Tag tag, EventSink& out);
  void end_reasoning();
  void leave_content(EventSink& out);
  void open_call();
  bool begin_call(EventSink& out);
  void reject_call(EventSink& out);
  void begin_value(EventSink& out);
  void end_value(EventSink& out);
  void close_call(EventSink& out);
  void finish_call(bool cut, EventSink& out);
  void finish_content(EventSink& out);

  const Tokenizer* tokenizer;
  TagTable tags;
  bool thinking;
  bool single_call;
  ToolSet tools;

  State state;
  bool started = false;  // something came
  bool finished = false;
  std::string pending;  // may become a tag that the tokenizer lacks
  Utf8Assembler utf8;

  std::string newlines;  // end of the reasoning so far
  HeadTrim head_trim;
  std::string blanks;  // content so far, while it is only blanks and a call may follow
  bool has_content = false;
  std::string segment;   // content since the last call
  std::string trailing;  // content after calls, for the end

  std::string name;  // as it came
  std::string key;   // as it came
  std::optional<CallArguments> arguments;
  int32_t calls_begun = 0;
  int32_t calls_complete = 0;
  int64_t reasoning_tokens = 0;
};

bool in_arguments(State state) noexcept {
  return state >= State::call_gap;
}

void OutputParser::Impl::feed(int32_t id, std::vector<OutputEvent>& events) {
  if (finished || (single_call && calls_complete > 0)) return;
  if (state == State::reasoning) ++reasoning_tokens;
  EventSink out(events);
  const std::optional<Tag> known = tags.of_id(id);
  if (!known && !tokenizer->is_special(id)) return bytes(tokenizer->token_bytes(id), out);
  release_pending(out);
  if (known) return tag(*known, out);
  end_of_text(out);  // a role token or the like: it has no text
}

void OutputParser::Impl::bytes(std::string_view piece, EventSink& out) {
  if (tags.spelled().empty()) return text(piece, out);
  pending += piece;
  for (;;) {
    const TagMatch match = find_tag(pending, tags.spelled() & terminals());
    if (match.at == std::string::npos) break;
    const std::string rest = pending.substr(match.at + tag_text(match.tag).size());
    pending.resize(match.at);
    release_pending(out);
    tag(match.tag, out);
    if (single_call && calls_complete > 0) return;
    pending = rest;
  }
  const size_t held = partial_tag_bytes(pending, tags.spelled() & terminals());
  const std::string tail = pending.substr(pending.size() - held);
  pending.resize(pending.size() - held);
  release_pending(out);
  pending = tail;
}

void OutputParser::Impl::release_pending(EventSink& out) {
  text(std::exchange(pending, {}), out);
}

/// A character that the text broke off cannot be completed any more.
void OutputParser::Impl::end_of_text(EventSink& out) {
  std::string piece;
  utf8.finish(piece);
  valid_text(piece, out);
}

void OutputParser::Impl::text(std::string_view piece, EventSink& out) {
  if (piece.empty()) return;
  std::string valid;
  utf8.feed(piece, valid);
  started = true;
  valid_text(valid, out);
}

TagSet OutputParser::Impl::terminals() const noexcept {
  switch (state) {
    case State::reasoning:
    case State::content: {
      TagSet set;
      if (thinking) set = {Tag::think, Tag::think_end};
      if (!thinking && !started) set.add(Tag::think_end);
      if (!tools.empty()) set.add(Tag::tool_call);
      return set;
    }
    case State::bad_call:
      return {Tag::tool_call, Tag::tool_call_end};
    case State::call_name:
      return kCallTags;
    case State::call_gap:
    case State::call_key:
    case State::call_key_done:
      return {Tag::tool_call_end, Tag::arg_key, Tag::arg_key_end, Tag::arg_value,
              Tag::arg_value_end};
    case State::call_value:
      return {Tag::tool_call_end, Tag::arg_value_end};
  }
  return {};
}

void OutputParser::Impl::tag(Tag tag, EventSink& out) {
  end_of_text(out);
  if (!terminals().has(tag)) return text(tag_text(tag), out);
  started = true;
  if (state == State::call_name) return name_tag(tag, out);
  if (in_arguments(state)) return argument_tag(tag, out);
  content_tag(tag, out);
}

// --- text ---------------------------------------------------------------------------------------

void OutputParser::Impl::valid_text(std::string_view piece, EventSink& out) {
  if (piece.empty()) return;
  switch (state) {
    case State::reasoning:
      return reasoning_text(piece, out);
    case State::content:
    case State::bad_call:
      return content_text(piece, out);
    case State::call_name:
      return name_text(piece, out);
    case State::call_gap:
    case State::call_key_done:
      return;
    case State::call_key:
      key += piece;
      return;
    case State::call_value: {
      std::string json;
      arguments->value_text(piece, json);
      return out.arguments(calls_begun - 1, json);
    }
  }
}

/// Newlines wait until other text shows that they are not the end.
void OutputParser::Impl::reasoning_text(std::string_view piece, EventSink& out) {
  size_t end = piece.size();
  while (end > 0 && is_newline(piece[end - 1])) --end;
  if (end > 0) {
    out.reasoning(newlines);
    newlines.clear();
    out.reasoning(piece.substr(0, end));
  }
  newlines += piece.substr(end);
}

void OutputParser::Impl::content_text(std::string_view piece, EventSink& out) {
  content_rest(head_trim(piece), out);
}

void OutputParser::Impl::content_rest(std::string_view piece, EventSink& out) {
  if (calls_begun > 0) {
    segment += piece;
  } else if (has_content || tools.empty()) {
    out.content(piece);
  } else if (leading_blanks(piece) == piece.size()) {
    blanks += piece;
  } else {
    has_content = true;
    out.content(std::exchange(blanks, {}));
    out.content(piece);
  }
}

/// A name that no tool begins with shows that this is no call.
void OutputParser::Impl::name_text(std::string_view piece, EventSink& out) {
  name += piece;
  if (leading_blanks(piece) == piece.size()) return;
  const std::string_view begun = std::string_view(name).substr(leading_blanks(name));
  if (!tools.has_prefix(begun) && tools.find(python_strip(name)) == nullptr) reject_call(out);
}

// --- tags ---------------------------------------------------------------------------------------

void OutputParser::Impl::content_tag(Tag tag, EventSink& out) {
  switch (tag) {
    case Tag::think:
      if (state == State::content) leave_content(out);
      state = State::reasoning;
      return;
    case Tag::think_end:
      // In content this is a stray tag, or with thinking off the model's own empty block.
      if (state == State::reasoning || !thinking) head_trim.arm();
      if (state == State::reasoning) end_reasoning();
      return;
    case Tag::tool_call:
      if (state == State::reasoning) {
        end_reasoning();
      } else {
        leave_content(out);
      }
      return open_call();
    default:  // </tool_call> of a block that is no call
      content_text(tag_text(tag), out);
      state = State::content;
  }
}

void OutputParser::Impl::end_reasoning() {
  newlines.clear();
  state = State::content;
}

void OutputParser::Impl::leave_content(EventSink& out) {
  content_rest(head_trim.flush(), out);
  head_trim.disarm();
}

void OutputParser::Impl::open_call() {
  name.clear();
  state = State::call_name;
}

void OutputParser::Impl::name_tag(Tag tag, EventSink& out) {
  switch (tag) {
    case Tag::tool_call:
      reject_call(out);
      return open_call();
    case Tag::arg_key:
      if (begin_call(out)) {
        key.clear();
        state = State::call_key;
        return;
      }
      break;
    case Tag::tool_call_end:
      if (begin_call(out)) return close_call(out);
      break;
    default:
      break;
  }
  reject_call(out);
  content_text(tag_text(tag), out);
  if (tag == Tag::tool_call_end) state = State::content;
}

/// The header of a call whose name is complete; false when no such tool was declared.
bool OutputParser::Impl::begin_call(EventSink& out) {
  std::string complete(python_strip(name));
  const ToolSchema* schema = tools.find(complete);
  if (schema == nullptr) return false;
  blanks.clear();
  if (leading_blanks(segment) < segment.size()) trailing += segment;
  segment.clear();
  arguments.emplace(*schema);
  out.begin(calls_begun++, std::move(complete));
  return true;
}

/// The block so far is ordinary text.
void OutputParser::Impl::reject_call(EventSink& out) {
  state = State::bad_call;
  content_text(tag_text(Tag::tool_call), out);
  content_text(std::exchange(name, {}), out);
}

void OutputParser::Impl::argument_tag(Tag tag, EventSink& out) {
  if (state == State::call_value) end_value(out);  // by its own tag, or by the end of the call
  if (tag == Tag::tool_call_end) return close_call(out);
  switch (tag) {
    case Tag::arg_key:
      key.clear();
      state = State::call_key;
      return;
    case Tag::arg_key_end:
      if (state == State::call_key) state = State::call_key_done;
      return;
    case Tag::arg_value:
      // The model may forget </arg_key>; a value without any key is ignored.
      if (state != State::call_gap) begin_value(out);
      return;
    default:
      state = State::call_gap;
  }
}

void OutputParser::Impl::begin_value(EventSink& out) {
  std::string json;
  arguments->begin_value(python_strip(key), json);
  out.arguments(calls_begun - 1, json);
  state = State::call_value;
}

void OutputParser::Impl::end_value(EventSink& out) {
  std::string json;
  arguments->end_value(json);
  out.arguments(calls_begun - 1, json);
  state = State::call_gap;
}

void OutputParser::Impl::close_call(EventSink& out) {
  std::string json;
  arguments->close(json);
  arguments.reset();
  out.arguments(calls_begun - 1, json);
  out.end(calls_begun - 1);
  ++calls_complete;
  state = State::content;
}

// --- the end ------------------------------------------------------------------------------------

void OutputParser::Impl::finish(bool cut, std::vector<OutputEvent>& events) {
  if (finished) return;
  EventSink out(events);
  if (!in_arguments(state)) {
    release_pending(out);
    end_of_text(out);
  }
  newlines.clear();
  finish_call(cut, out);
  finish_content(out);
  finished = true;
}

/// A model that stops by itself after the name or a whole pair has only forgotten </tool_call>. Any
/// other open call stays open: what it would have held is unknown.
void OutputParser::Impl::finish_call(bool cut, EventSink& out) {
  if (state == State::call_gap && !cut) close_call(out);
  if (state != State::call_name) return;
  if (!cut && begin_call(out)) return close_call(out);
  if (!cut || !tools.has_prefix(python_strip(name))) reject_call(out);
}

void OutputParser::Impl::finish_content(EventSink& out) {
  content_rest(head_trim.flush(), out);
  out.content(std::exchange(blanks, {}));
  if (leading_blanks(segment) < segment.size()) trailing += segment;
  segment.clear();
  out.content(std::exchange(trailing, {}));
}

// --- the interface ------------------------------------------------------------------------------

OutputParser::OutputParser(const Tokenizer& tokenizer, const OutputParserOptions& options)
    : impl_(std::make_unique<Impl>(tokenizer, options)) {}
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;
OutputParser::~OutputParser() = default;

void OutputParser::feed(int32_t id, std::vector<OutputEvent>& events) {
  impl_->feed(id, events);
}

void OutputParser::finish(bool cut, std::vector<OutputEvent>& events) {
  impl_->finish(cut, events);
}

bool OutputParser::in_reasoning() const noexcept {
  return impl_->state == State::reasoning;
}

bool OutputParser::in_call() const noexcept {
  return impl_->state == State::call_name || in_arguments(impl_->state);
}

int32_t OutputParser::complete_calls() const noexcept {
  return impl_->calls_complete;
}

bool OutputParser::wants_stop() const noexcept {
  return impl_->single_call && impl_->calls_complete > 0;
}

int64_t OutputParser::reasoning_tokens() const noexcept {
  return impl_->reasoning_tokens;
}

}  // namespace yoke::engine
