// Programs on a mesh whose ranks are processes, of which this is one: each reads and writes its own
// boxes of files, and one of them speaks for all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/cli/run.h"
#include "runtime/transport/plugin_transport.h"

namespace tile::cli {

// `tile run --transport`.
int run_on_processes(const RunArguments& arguments, const Options& options);
// `tile conform --transport`: every rank runs and checks every case.
int conform_on_processes(const std::vector<std::string>& files, const std::string& filter,
                         const MeshArguments& mesh, const Options& options);

// Runs `work`, whose errors rank 0 prints for all: those of others too where they are of their own,
// with the number of their rank. What other ranks print to standard output is dropped. Returns the
// exit status.
int spoken_for(PluginTransport& transport, const Options& options,
               const std::function<int()>& work);

}  // namespace tile::cli
