#include "tests/distribute/sharded_run.h"

#include <gtest/gtest.h>

#include <map>

#include "core/interpret/interpret_ranks.h"
#include "core/ir/ranks/reduce_part.h"
#include "core/ir/scalar.h"

namespace tile::test {
namespace {

SourcePtr text_of(const std::string& name, const std::string& text) {
  return std::make_shared<const Source>(Source{name, text});
}

bool first_along(const Mesh& mesh, const std::vector<size_t>& axes, size_t rank) {
  return part_of(mesh, axes, rank) == 0;
}

HostTensor part_of_tensor(const HostTensor& whole, const Box& box, bool zeros) {
  HostTensor part(whole.type, box.shape());
  if (!zeros && part.count() != 0) {
    copy_out(whole.bytes.data(), whole.shape, box, byte_size(whole.type), part.bytes.data());
  }
  return part;
}

}  // namespace

PartitionedProgram divided(const BoundProgram& program, const std::string& mesh_text,
                           const std::string& layouts, bool divide_terms) {
  Mesh mesh = parse_mesh(text_of("<mesh>", mesh_text));
  WrittenLayouts written = parse_layouts(text_of("<layout>", layouts), mesh);
  PartitionOptions options;
  options.divide_terms = divide_terms;
  return partition(program, distribution_of(program, mesh, written), options);
}

Choice chosen(const BoundProgram& program, const std::string& mesh_text, const std::string& layouts,
              const ChoiceOptions& options) {
  Mesh mesh = parse_mesh(text_of("<mesh>", mesh_text));
  WrittenLayouts written = parse_layouts(text_of("<layout>", layouts), mesh);
  return choose_layouts(program, named_layouts(program, mesh, written), options);
}

PartitionedProgram divided_as(const BoundProgram& program, const Choice& choice,
                              const ChoiceOptions& options) {
  PartitionOptions how;
  how.links = options.links;
  return partition(program, choice.distribution, how);
}

std::string layout_error(const BoundProgram& program, const std::string& mesh_text,
                         const std::string& layouts) {
  Mesh mesh;
  try {
    mesh = parse_mesh(text_of("<mesh>", mesh_text));
  } catch (const Failure& failure) {
    return render(failure.diagnostic(), {"<mesh>", mesh_text});
  }
  try {
    distribution_of(program, mesh, parse_layouts(text_of("<layout>", layouts), mesh));
  } catch (const Failure& failure) {
    return render(failure.diagnostic(), {"<layout>", layouts});
  }
  return "";
}

std::vector<std::vector<HostTensor>> scattered(const PartitionedProgram& p,
                                               const BoundProgram& program,
                                               const std::vector<HostTensor>& inputs) {
  std::vector<std::vector<HostTensor>> parts(p.ranks.size());
  for (size_t r = 0; r < p.ranks.size(); ++r) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorLayout& layout = p.distribution.layouts[program.inputs[i]];
      bool zeros = !first_along(p.distribution.mesh, layout.partial, r);
      parts[r].push_back(part_of_tensor(inputs[i], p.inputs[i][r], zeros));
    }
  }
  return parts;
}

std::vector<HostTensor> put_together(const PartitionedProgram& p, const BoundProgram& program,
                                     const std::vector<std::vector<HostTensor>>& outputs) {
  std::vector<HostTensor> whole;
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    TensorId id = program.outputs[o];
    const BoundTensor& tensor = program.tensors[id];
    std::vector<size_t> partial;
    if (!tensor.view_of) partial = p.distribution.layouts[id].partial;
    HostTensor all(tensor.type, tensor.shape);
    Exchange sums;
    if (!partial.empty()) sums.reduction = Aggregation::sum;
    PartReducer reducer(sums, tensor);
    std::map<std::pair<std::string, size_t>, const HostTensor*> seen;
    for (size_t r = 0; r < outputs.size(); ++r) {
      const HostTensor& part = outputs[r][o];
      const Box& box = p.outputs[o][r];
      EXPECT_EQ(part.shape, box.shape());
      auto key = std::pair(to_string(box), part_of(p.distribution.mesh, partial, r));
      auto [same, fresh] = seen.emplace(key, &part);
      if (!fresh) {
        EXPECT_EQ(same->second->bytes, part.bytes) << "ranks differ in " << tensor.name;
        continue;
      }
      if (!box.empty()) reducer.receive(box, part.bytes.data(), all.bytes.data());
    }
    whole.push_back(std::move(all));
  }
  return whole;
}

std::vector<HostTensor> run_ranks(const PartitionedProgram& p, const BoundProgram& program,
                                  const std::vector<HostTensor>& inputs) {
  std::vector<Interpretation> results =
      interpret_ranks(p.ranks, scattered(p, program, inputs), kInOrder);
  std::vector<std::vector<HostTensor>> outputs;
  for (Interpretation& one : results) outputs.push_back(std::move(one.outputs));
  return put_together(p, program, outputs);
}

void expect_same_bits(const std::vector<HostTensor>& expected, const std::vector<HostTensor>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(expected[o].shape, got[o].shape);
    for (int64_t i = 0; i < got[o].count(); ++i) {
      ASSERT_TRUE(same_value(expected[o].at(i), got[o].at(i))) << "output " << o << " cell " << i;
    }
  }
}

}  // namespace tile::test
