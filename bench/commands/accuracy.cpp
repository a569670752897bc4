// tile-bench accuracy: how far results of f32, ours and the peers', and the peers' of f64 are from
// ours of f64, and how far those move with their inputs.
#include "bench/measure/accuracy.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/commands/session.h"
#include "bench/report/json_file.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;

// Of the peers' f64: JAX rounds the scores of attention to f32.
constexpr double kF64 = 1e-6;

class Accuracy {
 public:
  explicit Accuracy(const Request& request) : request_(request), session_(request) {}

  int run() {
    for (const std::string& peer : session_.context().peers) json_["peers"].push_back(peer);
    for (const Case& c : session_.cases()) {
      std::printf("%s\n", c.name.c_str());
      session_.progress().show(c.name);
      entry_ = {{"name", c.name}};
      try {
        measure(c);
      } catch (const std::exception& failure) {
        failed("error", failure.what());
      }
      session_.progress().clear();
      std::fflush(stdout);
      json_["cases"].push_back(entry_);
      if (!request_.json.empty()) replace_file(request_.json, json_.dump(1) + "\n");
    }
    return failed_ ? 1 : 0;
  }

 private:
  void failed(const std::string& who, const std::string& why) {
    std::printf("  %-18s %s\n", who.c_str(), why.c_str());
    entry_[who] = why;
    failed_ = true;
  }

  void show(const std::string& who, const Prepared::Difference& off, const char* note) {
    std::printf("  %-18s %9.2e in %s%s\n", who.c_str(), off.most, off.output.c_str(), note);
    entry_[who] = off.most;
  }

  void judge(const std::string& who, const Prepared::Difference& off, double limit) {
    bool far = off.most > limit;
    show(who, off, far ? ": too far" : "");
    failed_ = failed_ || far;
  }

  void measure(const Case& c) {
    Prepared own = session_.prepare(c);
    own.run();
    own.fetch();
    Exact exact(own);
    Prepared::Difference moved = exact.moved();
    double limit = limit_of(own, moved.most);
    show("moved", moved, "");
    judge("tile f32", exact.off(own.outputs()), limit);
    judge_peers(own, exact, " f32", limit);
    judge_peers(exact.prepared(), exact, " f64", kF64);
  }

  void judge_peers(const Prepared& prepared, const Exact& exact, const std::string& type,
                   double limit) {
    Result result;
    for (const Session::Opponent& other : session_.opponents(prepared, result)) {
      judge(other.name + type, exact.off(other.outputs), limit);
    }
    for (const Result::FailedPeer& peer : result.failed_peers) {
      failed(peer.name + type, peer.reason);
    }
  }

  const Request& request_;
  Session session_;
  Json json_, entry_;
  bool failed_ = false;
};

}  // namespace

int command_accuracy(const Request& request) {
  check_request(request);
  return Accuracy(request).run();
}

}  // namespace tile::bench
