// Programs on a mesh as tile.h has them.
#pragma once

#include <memory>
#include <vector>

#include "runtime/api/handles.h"
#include "runtime/engine/parameter_ranges.h"
#include "runtime/ranks/rank_mesh.h"

struct tile_mesh {
  std::shared_ptr<tile::Engine> engine;
  std::shared_ptr<tile::RankMesh> mesh;
};

namespace tile::api {

class MeshExecutable {
 public:
  struct Box {
    std::vector<int64_t> begin, whole;
  };

  // `defaults` of the program's inputs, whole.
  MeshExecutable(std::unique_ptr<const MeshProgram> program, const InputDefaults& defaults);

  const MeshProgram& program() const { return *program_; }
  // What a rank gives and gets.
  const std::vector<LiveExecutable::Output>& inputs() const { return inputs_; }
  const std::vector<LiveExecutable::Output>& outputs() const { return outputs_; }
  const Box& input_box(size_t i) const { return input_boxes_[i]; }
  const Box& output_box(size_t i) const { return output_boxes_[i]; }
  // This rank's boxes of the defaults.
  const InputDefaults& defaults() const { return defaults_; }
  // Null where no parameter has one.
  ParameterRanges* ranges() const { return ranges_.get(); }

 private:
  std::unique_ptr<const MeshProgram> program_;
  std::vector<LiveExecutable::Output> inputs_, outputs_;
  std::vector<Box> input_boxes_, output_boxes_;
  InputDefaults defaults_;
  std::shared_ptr<ParameterRanges> ranges_;
};

// Throws Failure, FailureInText.
std::shared_ptr<const MeshExecutable> compiled_on_mesh(LoadedProgram& loaded,
                                                       const std::vector<TensorView>& inputs,
                                                       const tile_compile_options& options);
tile_error* run_on_mesh(const MeshExecutable& executable, const DLTensor* const* inputs,
                        size_t input_count, DLTensor* const* outputs, size_t output_count,
                        const tile_run_options* options);

}  // namespace tile::api
