// Ranks that are processes: a transport whose functions are a plug-in's (tile/transport.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/transport.h"
#include "tile/transport.h"

namespace tile {

class PluginTransport final : public Transport {
 public:
  // Takes the table, whose close() it calls at its end.
  PluginTransport(tile_transport table, double timeout_seconds);
  ~PluginTransport() override;
  PluginTransport(const PluginTransport&) = delete;
  PluginTransport& operator=(const PluginTransport&) = delete;

  size_t rank() const override { return table_.rank; }
  size_t ranks() const override { return table_.ranks; }
  void exchange(std::span<const SentPart> sent, std::span<const ReceivedPart> received,
                const std::string& what) override;
  void abort(const std::string& why) noexcept override;
  bool in_flight() const noexcept override { return in_flight_; }
  bool serves_any_thread() const override { return table_.one_thread == 0; }
  double timeout() const override { return timeout_; }
  std::vector<std::pair<size_t, std::string>> last_words(double seconds) override;

  // What ranks do behind a failure, so that one of them may speak for all before the processes end.
  // Tells the others that they have been spoken for.
  void dismiss() noexcept;
  // Whether rank 0 says so within the time.
  bool is_dismissed(double seconds);

 private:
  void exchange_parts(std::span<const SentPart> sent, std::span<const ReceivedPart> received,
                      const std::string& what);
  std::optional<std::pair<size_t, std::string>> hear(double seconds);
  void tell_all(const std::string& notice) noexcept;

  tile_transport table_;
  double timeout_;
  bool dead_ = false, told_ = false, in_flight_ = false, dismissed_ = false;
  std::vector<std::pair<size_t, std::string>> words_;  // heard so far
};

// What a transport's name stands for: a path with a slash in it for itself, "mpi" for the path in
// the environment's TILE_MPI. Throws Failure (run, "argument").
std::string plugin_path(const std::string& name);

struct PluginOptions {
  std::string path;  // of the shared library
  double timeout_seconds = kRankTimeoutSeconds;
  void* communicator = nullptr;  // see tile_mesh_options
};
// All processes together. The file and its folder must belong to this user or to root, and nobody
// else may write them. Throws Failure (run, "transport").
std::unique_ptr<PluginTransport> open_plugin(const PluginOptions& options);

}  // namespace tile
