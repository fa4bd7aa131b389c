#include "server/ready_block.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "engine/json/json.h"

namespace yoke::server {
namespace {

using engine::Json;

bool bound_to_all(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

std::string bracketed(const std::string& host) {
  return host.find(':') != std::string::npos ? "[" + host + "]" : host;
}

/// Copilot counts with another tokenizer: leave a tenth of the room free (spec/api.md 1.2).
int64_t advised_input_tokens(const ReadyFacts& facts) {
  return int64_t{facts.context_tokens - facts.max_output_tokens} * 9 / 10;
}

void append_indented(std::string& out, const Json& value, int depth) {
  const std::string inner(static_cast<size_t>(depth + 1) * 2, ' ');
  const std::string outer(static_cast<size_t>(depth) * 2, ' ');
  const auto is_leaf = [](const Json& v) { return !v.is_object() && !v.is_array(); };
  if (is_leaf(value)) {
    engine::append_json(out, value);
  } else if (value.is_array()) {
    bool leaves = true;
    for (const Json& item : value.items()) leaves = leaves && is_leaf(item);
    out += '[';
    const char* separator = "";
    for (const Json& item : value.items()) {
      out += separator;
      if (!leaves) out += "\n" + inner;
      append_indented(out, item, depth + 1);
      separator = leaves ? ", " : ",";
    }
    if (!leaves) out += "\n" + outer;
    out += ']';
  } else {
    out += '{';
    const char* separator = "";
    for (const auto& [key, member] : value.members()) {
      out += separator;
      out += "\n" + inner;
      engine::append_json_string(out, key);
      out += ": ";
      append_indented(out, member, depth + 1);
      separator = ",";
    }
    out += "\n" + outer + "}";
  }
}

}  // namespace

std::string base_url(const ReadyFacts& facts) {
  std::string host = facts.host;
  if (bound_to_all(host)) host = facts.lan_address.empty() ? "127.0.0.1" : facts.lan_address;
  return "http://" + bracketed(host) + ":" + std::to_string(facts.port);
}

std::string vscode_settings(const ReadyFacts& facts) {
  const auto text = [](std::string value) { return Json::string(std::move(value)); };
  Json efforts = Json::array();
  for (const char* effort : {"low", "high", "max"}) efforts.items().push_back(text(effort));

  Json model = Json::object();
  model.set("id", text(facts.model));
  model.set("name", text("yoke " + facts.model));
  model.set("url", text(base_url(facts) + "/v1/chat/completions"));
  model.set("toolCalling", Json::boolean(true));
  model.set("vision", Json::boolean(false));
  model.set("maxInputTokens", Json::integer(advised_input_tokens(facts)));
  model.set("maxOutputTokens", Json::integer(facts.max_output_tokens));
  model.set("thinking", Json::boolean(true));
  model.set("supportsReasoningEffort", std::move(efforts));
  model.set("reasoningEffortFormat", text("chat-completions"));
  model.set("streaming", Json::boolean(true));

  Json group = Json::object();
  group.set("name", text("yoke"));
  group.set("vendor", text("customendpoint"));
  group.set("apiKey", text(facts.has_keys ? "${input:chat.lm.secret.yoke}" : ""));
  group.set("apiType", text("chat-completions"));
  group.set("models", Json::array({std::move(model)}));

  std::string out = "  ";
  append_indented(out, Json::array({std::move(group)}), 1);
  return out + "\n";
}

std::string ready_block(const ReadyFacts& facts) {
  const std::string url = base_url(facts);
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.1f", facts.seconds_to_ready);
  const std::string key_header = facts.has_keys ? " -H 'Authorization: Bearer YOUR-KEY'" : "";

  std::string out = "READY after " + std::string(seconds.data()) + " s\n";
  out += "  url       " + url + "/v1\n";
  if (facts.loopback_only) {
    out +=
        "            only this machine reaches it; for the LAN: yoke serve --host 0.0.0.0 --port " +
        std::to_string(facts.port) + " --api-key YOUR-KEY\n";
  } else if (!facts.has_keys) {
    out +=
        "            WARNING: every machine that reaches this address may use it; add --api-key "
        "YOUR-KEY\n";
  }
  out += "  model     " + facts.model + "\n";
  out += "  context   " + std::to_string(facts.context_tokens) + " tokens\n";
  out += "  effort    " + facts.reasoning_effort + " (requests may say low, high, max or none)\n";
  out += "  licence   " + facts.weights_licence + "\n";
  out += "Try it:\n  curl " + url + "/v1/chat/completions -H 'Content-Type: application/json'" +
         key_header +
         " -d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is 17 times 23?\"}],"
         "\"temperature\":0}'\n";
  out += "VS Code (Chat: Manage Language Models, Custom Endpoint, chatLanguageModels.json):\n";
  out += vscode_settings(facts);
  return out;
}

std::string weights_licence(std::string_view checkpoint_name, std::string_view licence_file_text) {
  const auto first_line = [](std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\r\n#");
    if (begin == std::string_view::npos) return std::string_view();
    text.remove_prefix(begin);
    return text.substr(0, std::min(text.find_first_of("\r\n"), size_t{120}));
  };
  if (const auto line = first_line(licence_file_text); !line.empty())
    return "weights: " + std::string(line) + " (LICENSE in the checkpoint folder)";
  // Published checkpoints (spec/glm5_next.md 4.1).
  if (checkpoint_name.find("tr3-4bpw") != std::string_view::npos ||
      checkpoint_name.find("TR3-4bpw") != std::string_view::npos)
    return "weights: ShapleyMCG-1.0 (the TR3 checkpoint's licence; read it before commercial use)";
  return "weights: the checkpoint folder has no LICENSE file; check where you got them";
}

std::string lan_address() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::string v6;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      const uint32_t bits = ntohl(address->sin_addr.s_addr);
      if ((bits >> 16) == 0xA9FE) continue;  // 169.254/16: link-local
      inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
      return text.data();
    }
    if (entry->ifa_addr->sa_family == AF_INET6 && v6.empty()) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
      v6 = text.data();
    }
  }
  return v6;
}

}  // namespace yoke::server
