// The requests of golden/chat in the spelling of many clients, read by our parser and by Boost.JSON
// as a second opinion; then the same after random damage.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>

#include "engine/json/json.h"

namespace yoke::engine {
namespace {

std::vector<std::string> golden_requests() {
  const char* root = std::getenv("YOKE_GOLDEN_ROOT");
  std::vector<std::string> requests;
  const auto folder = std::filesystem::path(root != nullptr ? root : YOKE_GOLDEN_ROOT) / "chat";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const auto parsed = parse_json(line, entry.path().string());
      EXPECT_TRUE(parsed.ok());
      if (parsed.ok()) requests.push_back(parsed->find("request")->as_string());
    }
  }
  return requests;
}

/// Boost as a peer that reads what a strict reader must: same limits as ours.
bool peer_parse(std::string_view text, boost::json::value& out) {
  boost::json::parse_options options;
  options.max_depth = 256;
  boost::json::error_code error;
  out = boost::json::parse(text, error, {}, options);
  return !error;
}

bool same_number(const Json& ours, const boost::json::value& theirs) {
  if (theirs.is_int64()) return ours.to_int64() == theirs.get_int64();
  if (theirs.is_uint64()) return *ours.to_double() == static_cast<double>(theirs.get_uint64());
  const double a = *ours.to_double();
  const double b = theirs.get_double();
  // Boost 1.81 rounds some doubles wrongly by a few units in the last place.
  return a == b || std::abs(a - b) <= 1e-14 * std::abs(a) || (std::abs(a) < 1e-300 && b < 1e-300);
}

bool same(const Json& ours, const boost::json::value& theirs) {
  switch (ours.kind()) {
    case Json::Kind::null:
      return theirs.is_null();
    case Json::Kind::boolean:
      return theirs.is_bool() && theirs.get_bool() == ours.as_boolean();
    case Json::Kind::number:
      return theirs.is_number() && same_number(ours, theirs);
    case Json::Kind::string:
      return theirs.is_string() && std::string_view(theirs.get_string()) == ours.as_string();
    case Json::Kind::array: {
      if (!theirs.is_array() || theirs.get_array().size() != ours.items().size()) return false;
      for (size_t i = 0; i < ours.items().size(); ++i) {
        if (!same(ours.items()[i], theirs.get_array()[i])) return false;
      }
      return true;
    }
    case Json::Kind::object: {
      if (!theirs.is_object() || theirs.get_object().size() != ours.members().size()) return false;
      for (const auto& [key, value] : ours.members()) {
        const boost::json::value* other = theirs.get_object().if_contains(key);
        if (other == nullptr || !same(value, *other)) return false;
      }
      return true;
    }
  }
  return false;
}

TEST(JsonGolden, every_request_reads_prints_and_reads_again) {
  const auto requests = golden_requests();
  ASSERT_FALSE(requests.empty());
  for (const std::string& request : requests) {
    const auto parsed = parse_json(request, "request");
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << "\n" << request;
    const auto again = parse_json(to_json(*parsed), "printed");
    ASSERT_TRUE(again.ok()) << again.error().message;
    ASSERT_EQ(*again, *parsed) << request;
    boost::json::value theirs;
    ASSERT_TRUE(peer_parse(request, theirs)) << request;
    ASSERT_TRUE(same(*parsed, theirs)) << request;
  }
}

TEST(JsonGolden, damaged_requests_are_judged_as_the_peer_judges_them) {
  constexpr unsigned kSeed = 5;
  std::mt19937 random(kSeed);
  // Bytes that matter to a JSON reader come up often; the rest is noise.
  constexpr std::string_view kBytes =
      "{}[]\",:\\/u0123456789-+.eEtfn \n\t\r\x01\x7f\xc3\xed\xf0\xff";
  int accepted = 0;
  const auto requests = golden_requests();
  for (const std::string& request : requests) {
    for (int round = 0; round < 40; ++round) {
      std::string text = request.substr(0, 400);
      if (round % 2 == 0) text = request;
      for (unsigned n = 1 + random() % 2; n > 0; --n) {
        const size_t at = random() % text.size();
        const char byte = kBytes[random() % kBytes.size()];
        switch (random() % 3) {
          case 0:
            text[at] = byte;
            break;
          case 1:
            text.insert(at, 1, byte);
            break;
          default:
            text.erase(at, 1);
        }
      }
      const auto ours = parse_json(text, "damaged");
      boost::json::value theirs;
      const bool theirs_ok = peer_parse(text, theirs);
      if (theirs_ok) {
        ASSERT_TRUE(ours.ok()) << ours.error().message << "\n" << text;
        ASSERT_TRUE(same(*ours, theirs)) << text;
        ++accepted;
      } else if (ours.ok()) {
        // Known to differ: lone surrogate escapes (we replace them), exponents beyond an int.
        const bool replaced = to_json(*ours).find("\xEF\xBF\xBD") != std::string::npos;
        static const std::regex kHugeExponent("[0-9][eE][+-]?[0-9]{8,}");
        const bool exponent = std::regex_search(text, kHugeExponent);
        ASSERT_TRUE(replaced || exponent) << text;
      }
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace yoke::engine
