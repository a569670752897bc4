#include "runtime/ranks/rank_mesh.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "backends/build_identity.h"
#include "core/distribute/overlap/pieces/in_pieces.h"
#include "core/ir/ranks/reduce_part.h"
#include "core/ir/text.h"
#include "core/passes/bind/bind.h"
#include "runtime/ranks/exchange_names.h"
#include "runtime/ranks/kept.h"
#include "runtime/ranks/tell_all.h"

namespace tile {
namespace {

using Digest = std::array<uint64_t, 2>;

Digest digest_of(const std::string& text) {
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.low64, hash.high64};
}

std::string shapes_of(const std::vector<InputType>& inputs) {
  std::string text;
  for (const InputType& input : inputs) {
    text += std::string(to_string(input.type)) + print_integers(input.shape);
    text += (input.value ? " " + std::to_string(*input.value) : "") + "\n";
  }
  return text;
}

std::vector<MeshProgram::Part> parts_of(const Division& division,
                                        const std::vector<TensorId>& tensors,
                                        const std::vector<std::vector<Box>>& boxes) {
  std::vector<MeshProgram::Part> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const BoundTensor& tensor = division.program.tensors[tensors[i]];
    MeshProgram::Part part{tensor.type, tensor.shape, boxes[i], {}};
    if (!tensor.view_of) part.partial = division.parts.distribution.layouts[tensors[i]].partial;
    parts.push_back(std::move(part));
  }
  return parts;
}

size_t bytes_in(const MeshProgram::Part& part, size_t rank) {
  return static_cast<size_t>(part.boxes[rank].count()) * byte_size(part.type);
}

}  // namespace

RankMesh::RankMesh(Mesh mesh, std::shared_ptr<Transport> transport)
    : mesh_(std::move(mesh)), transport_(std::move(transport)) {
  if (mesh_.ranks() == transport_->ranks()) return;
  fail(Stage::run, "mesh", {},
       "the mesh " + to_string(mesh_) + " has " + std::to_string(mesh_.ranks()) +
           " ranks, its transport " + std::to_string(transport_->ranks()));
}

std::unique_lock<std::mutex> RankMesh::enter() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    fail(Stage::run, "argument", {}, "another thread is in a call that uses this rank's mesh");
  }
  return lock;
}

// What every rank has, rank 0's first.
std::vector<Digest> RankMesh::told_by_all(std::vector<Digest> own, const std::string& what) {
  std::vector<std::byte> bytes = bytes_of_all(*transport_, std::as_bytes(std::span(own)), what);
  std::vector<Digest> all(transport_->ranks() * own.size());
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

void RankMesh::agree(const std::vector<Given>& given) {
  size_t ranks = transport_->ranks(), count = given.size();
  std::vector<Digest> own;
  for (const Given& one : given) own.push_back(digest_of(one.text));
  std::vector<Digest> all = told_by_all(own, "agreement on the program");
  for (size_t r = 1; r < ranks; ++r) {
    for (size_t i = 0; i < count; ++i) {
      if (all[r * count + i] == all[i]) continue;
      fail(Stage::compile, "agreement", {},
           "rank " + std::to_string(r) + " of " + std::to_string(ranks) + " was given another " +
               given[i].name + " than rank 0",
           "all ranks of a mesh compile the same program");
    }
  }
}

void RankMesh::compare_ends(const std::string& error, const std::string& step) {
  Digest own = error.empty() ? Digest{} : digest_of(error);
  std::vector<Digest> all = told_by_all({own}, "end of the " + step);
  if (std::all_of(all.begin(), all.end(), [&](const Digest& d) { return d == own; })) return;
  if (!error.empty()) return transport_->abort(error);
  // One that failed sends nothing more but why.
  auto failed = std::find_if(all.begin(), all.end(), [](const Digest& d) { return d != Digest{}; });
  std::byte nothing{};
  ReceivedPart part{static_cast<size_t>(failed - all.begin()), &nothing, 1};
  transport_->exchange({}, {&part, 1}, "end of the " + step);
}

void RankMesh::connect(const std::shared_ptr<Engine>& engine) {
  if (std::exchange(connected_, true)) return;
  device_ = connect_devices(engine, *transport_);
}

const ChoiceOptions& RankMesh::figures(const Engine& engine) {
  if (!figures_) figures_ = figures_of(engine, mesh_, *transport_, linking());
  return *figures_;
}

Overlap RankMesh::common_overlap(Overlap own) {
  std::vector<Overlap> all = tile::told_by_all(*transport_, own, "overlap of exchanges");
  bool same = std::ranges::all_of(all, [&](Overlap other) { return other == own; });
  return same ? own : Overlap::never;
}

void RankMesh::meet(const std::string& what) { told_by_all({Digest{}}, what); }

std::vector<uint64_t> RankMesh::largest(const std::vector<uint64_t>& own, const std::string& what) {
  std::vector<Digest> numbers;
  for (uint64_t one : own) numbers.push_back({one, 0});
  std::vector<Digest> all = told_by_all(numbers, what);
  std::vector<uint64_t> largest = own;
  for (size_t i = 0; i < all.size(); ++i) {
    uint64_t& most = largest[i % own.size()];
    most = std::max(most, all[i][0]);
  }
  return largest;
}

MeshProgram::MeshProgram(const std::shared_ptr<Engine>& engine,
                         const std::shared_ptr<const Program>& source,
                         std::shared_ptr<RankMesh> mesh, const MeshProgramOptions& options)
    : mesh_(std::move(mesh)) {
  const EngineOptions& o = engine->options();
  mesh_->agree({{"build of the library", build_identity()},
                {"mesh", to_string(mesh_->mesh())},
                {"program", print(*source)},
                {"layout", options.layouts},
                {"shape or type of an input", shapes_of(options.inputs)},
                {"precision", o.precision},
                {"list of passes left out", engine->skipped_passes()}});
  mesh_->connect(engine);
  mesh_->figures(*engine);
  Overlap overlap = overlap_on(*engine, options.overlap, mesh_->is_linked());
  Overlap pieces = mesh_->common_overlap(overlap);
  try {
    compile(engine, source, options, pieces, overlap);
  } catch (const std::exception& error) {
    mesh_->compare_ends(error.what(), "compilation");
    throw;
  }
  mesh_->compare_ends("", "compilation");
}

void MeshProgram::compile(const std::shared_ptr<Engine>& engine,
                          const std::shared_ptr<const Program>& source,
                          const MeshProgramOptions& options, Overlap pieces, Overlap overlap) {
  Division division = divide(*source, options.inputs, mesh_->mesh(), options.layouts,
                             options.layouts_name, mesh_->figures(*engine));
  inputs_ = parts_of(division, division.program.inputs, division.parts.inputs);
  outputs_ = parts_of(division, division.program.outputs, division.parts.outputs);
  const ChoiceOptions& figures = mesh_->figures(*engine);
  OverlapOptions how{pieces, figures.links, figures.rates, mesh_->is_linked()};
  PartitionedProgram parts = in_pieces(std::move(division.parts), how).parts;
  std::vector<std::string> names = exchange_names(parts, *source->source);
  std::vector<std::optional<Collective>> collectives = collectives_of(parts.ranks);
  how.mode = overlap;
  OverlappedProgram own = overlapped(parts, mesh_->rank(), how);
  executable_ = std::make_unique<RankExecutable>(engine, source, std::move(own.program),
                                                 mesh_->rank(), names, std::move(collectives));
}

HostTensor MeshProgram::part_of_input(const HostTensor& whole, size_t input) const {
  return part_of_whole(inputs_[input], mesh_->mesh(), mesh_->rank(), whole);
}

void MeshProgram::run(const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs,
                      double* given_ns) const {
  executable_->run(mesh_->transport(), mesh_->device(), inputs, outputs, given_ns);
}

size_t MeshProgram::travelling() const {
  return static_cast<size_t>(
      std::ranges::count_if(executable_->program().exchanges, &PlacedExchange::travels));
}

HostTensor MeshProgram::gathered(size_t output, const HostTensor& own, size_t on) const {
  size_t self = mesh_->rank(), ranks = mesh_->mesh().ranks();
  const Part& part = outputs_[output];
  std::vector<SentPart> sent;
  std::vector<ReceivedPart> received;
  auto all = std::make_shared<std::vector<std::vector<std::byte>>>(ranks);
  for (size_t r = 0; r < ranks && self == on; ++r) {
    if (r == self) continue;
    (*all)[r].resize(bytes_in(part, r));
    received.push_back({r, (*all)[r].data(), (*all)[r].size()});
  }
  if (self != on) sent.push_back({on, own.bytes.data(), bytes_in(part, self)});
  try {
    mesh_->transport().exchange(sent, received, "gather of an output");
  } catch (...) {
    if (mesh_->transport().in_flight()) keep_for_ever(all);
    throw;
  }
  if (self != on) return {};
  std::vector<const std::byte*> parts;
  for (const std::vector<std::byte>& bytes : *all) parts.push_back(bytes.data());
  parts[self] = own.bytes.data();
  return put_together(part, mesh_->mesh(), parts);
}

HostTensor part_of_whole(const MeshProgram::Part& part, const Mesh& mesh, size_t rank,
                         const HostTensor& whole) {
  const Box& box = part.boxes[rank];
  HostTensor own(whole.type, box.shape());
  if (part_of(mesh, part.partial, rank) == 0 && !box.empty()) {
    copy_out(whole.bytes.data(), whole.shape, box, byte_size(whole.type), own.bytes.data());
  }
  return own;
}

HostTensor put_together(const MeshProgram::Part& part, const Mesh& mesh,
                        const std::vector<const std::byte*>& parts) {
  BoundTensor tensor;
  tensor.type = part.type;
  tensor.shape = part.whole;
  Exchange sums;
  if (!part.partial.empty()) sums.reduction = Aggregation::sum;
  PartReducer reducer(sums, tensor);
  HostTensor all(part.type, part.whole);
  std::set<std::pair<std::string, size_t>> seen;  // replicas are alike
  for (size_t r = 0; r < parts.size(); ++r) {
    const Box& box = part.boxes[r];
    size_t share = part_of(mesh, part.partial, r);
    if (box.empty() || !seen.emplace(to_string(box), share).second) continue;
    reducer.receive(box, parts[r], all.bytes.data());
  }
  return all;
}

}  // namespace tile
