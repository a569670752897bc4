#include "core/target/target.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace tile {
namespace {

constexpr std::array<std::string_view, 3> kPrecisions = {"f32", "tf32", "3xtf32"};

}  // namespace

std::string_view to_string(Precision precision) {
  return kPrecisions[static_cast<size_t>(precision)];
}

std::optional<Precision> parse_precision(std::string_view text) {
  for (size_t i = 0; i < kPrecisions.size(); ++i) {
    if (kPrecisions[i] == text) return static_cast<Precision>(i);
  }
  return std::nullopt;
}

double tensor_core_rate(DType type, const Target& target) {
  if (type == DType::f16 || type == DType::bf16) return target.gpu.matrix_per_ns;
  // Data sheets of A100 and H100: bytes twice as fast as bf16, f64 at 9.75 of 156 and 33.5 of 495
  // 10^12 multiply-adds. The smaller chips of a generation have next to no units for f64.
  if (type == DType::i8 || type == DType::u8) return 2 * target.gpu.matrix_per_ns;
  // Widened to f16 on their way to the tensor cores, where sums are to be those of f32.
  if (is_f8(type)) {
    bool has = target.gpu.capability >= 89;
    return has ? target.gpu.matrix_per_ns * (target.precision == Precision::tf32 ? 2 : 1) : 0;
  }
  if (type == DType::f64) {
    bool has = target.gpu.capability == 80 || target.gpu.capability == 90;
    return has ? target.gpu.matrix_per_ns * (target.gpu.capability == 80 ? 0.0625 : 0.0677) : 0;
  }
  if (type != DType::f32 || target.precision == Precision::f32) return 0;
  return target.gpu.matrix_per_ns / (target.precision == Precision::tf32x3 ? 6 : 2);
}

namespace {

std::string rate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

template <class Add>
void add_core(const CoreTimes& c, const Add& add) {
  add("l1_ways", rate(c.l1_ways));
  add("l2_ways", rate(c.l2_ways));
  add("fma_cycles", rate(c.fma_cycles));
  add("translations", rate(c.translations));
  add("page_walk_ns", rate(c.page_walk_ns));
  add("line_of_another_ns", rate(c.line_of_another_ns));
  add("line_handed_over_ns", rate(c.line_handed_over_ns));
}

template <class Add>
void add_gpu_rates(const GpuLimits& g, const Add& add) {
  add("blocks", std::to_string(g.blocks_per_multiprocessor));
  add("launch_ns", rate(g.launch_ns));
  add("matrix_per_ns", rate(g.matrix_per_ns));
  add("gigahertz", rate(g.gigahertz));
  add("matrix_gigahertz", rate(g.matrix_gigahertz));
  add("shared_per_clock", rate(g.shared_bytes_per_clock));
  add("copied_per_clock", rate(g.copied_bytes_per_clock));
  add("stored_per_clock", rate(g.stored_bytes_per_clock));
  add("cluster_per_clock", rate(g.cluster_bytes_per_clock));
  add("memory_ns", rate(g.memory_latency_ns));
  add("cached_step_ns", rate(g.cached_step_ns));
  add("block_ns", rate(g.block_start_ns));
  add("tree_ns", rate(g.tree_ns));
  add("cluster_ns", rate(g.cluster_wait_ns));
}

}  // namespace

std::string to_string(const Target& t) {
  std::string s = t.device + " [" + t.features + "]";
  auto add = [&](const char* name, const std::string& value) {
    s += std::string(" ") + name + "=" + value;
  };
  add("vector_bits", std::to_string(t.vector_bits));
  add("vector_registers", std::to_string(t.vector_registers));
  add("threads", std::to_string(t.threads));
  add("l1", std::to_string(t.l1_bytes));
  add("l2", std::to_string(t.l2_bytes));
  add("l3", std::to_string(t.l3_bytes));
  if (!is_gpu(t)) add("l2_shared", std::to_string(t.l2_shared_bytes));
  add("fma_per_ns", rate(t.fma_per_ns));
  add("dot_bf16_per_ns", rate(t.dot_bf16_per_ns));
  add("dot_i16_per_ns", rate(t.dot_i16_per_ns));
  add("dot_i8_per_ns", rate(t.dot_i8_per_ns));
  if (t.tiles.count > 0) {
    add("tiles", std::to_string(t.tiles.count));
    add("tile_rows", std::to_string(t.tiles.rows));
    add("tile_row_bytes", std::to_string(t.tiles.row_bytes));
    add("tile_bf16_per_ns", rate(t.tiles.bf16_per_ns));
    add("tile_i8_per_ns", rate(t.tiles.i8_per_ns));
  }
  add("l2_per_ns", rate(t.l2_bytes_per_ns));
  add("l3_per_ns", rate(t.l3_bytes_per_ns));
  add("dram_per_ns", rate(t.dram_bytes_per_ns));
  if (!is_gpu(t)) add_core(t.core, add);
  add("parallel_ns", rate(t.parallel_overhead_ns));
  add("class_work_ns", rate(t.class_work_ns));
  add("strict_skip", t.strict_skip ? "1" : "0");
  if (t.precision != Precision::f32) add("precision", std::string(to_string(t.precision)));
  if (is_gpu(t)) {
    add("multiprocessors", std::to_string(t.gpu.multiprocessors));
    add("capability", std::to_string(t.gpu.capability));
    add("warp", std::to_string(t.gpu.warp_size));
    add("block_threads", std::to_string(t.gpu.threads_per_block));
    add("resident_threads", std::to_string(t.gpu.threads_per_multiprocessor));
    add("registers", std::to_string(t.gpu.registers_per_multiprocessor));
    add("thread_registers", std::to_string(t.gpu.registers_per_thread));
    add("shared_block", std::to_string(t.gpu.shared_per_block));
    add("shared", std::to_string(t.gpu.shared_per_multiprocessor));
    add_gpu_rates(t.gpu, add);
  }
  return s;
}

namespace {

Target gpu_target(const char* features, int multiprocessors, double gigahertz, double dram) {
  Target t;
  t.device = "cuda";
  t.features = features;
  t.vector_bits = 128;
  t.vector_registers = 255;
  t.threads = multiprocessors;
  t.l1_bytes = 192 << 10;
  t.l3_bytes = 0;
  t.gpu.gigahertz = gigahertz;
  t.gpu.matrix_gigahertz = gigahertz;
  t.fma_per_ns = 128 * gigahertz;
  t.dram_bytes_per_ns = dram / multiprocessors;
  t.parallel_overhead_ns = 3000;
  t.gpu.multiprocessors = multiprocessors;
  t.gpu.launch_ns = 2000;
  // 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory").
  t.gpu.shared_bytes_per_clock = 128;
  // Measured on an H200 by `tile-bench run` on products of bf16 at 4096^3 (copies, stores) and on
  // products whose steps clusters share; no other GPU was measured.
  t.gpu.copied_bytes_per_clock = 66;
  t.gpu.stored_bytes_per_clock = 28;
  t.gpu.cluster_bytes_per_clock = 24;
  // Fitted on an H200 to `tile-bench run` of reductions, scans and pointwise kernels (latency), of
  // products of f32 between 512^3 and 4096^3 (step, block), and of softmax and layer_norm (tree,
  // cluster).
  t.gpu.memory_latency_ns = 600;
  t.gpu.cached_step_ns = 420;
  t.gpu.block_start_ns = 2000;
  t.gpu.tree_ns = 250;
  t.gpu.cluster_wait_ns = 600;
  return t;
}

}  // namespace

Target h200_target() {
  Target t = gpu_target("sm_90a", 132, 1.98, 4800);
  t.l2_bytes = 60 << 20;
  t.l2_bytes_per_ns = 5500.0 / 132;
  t.l3_bytes_per_ns = t.l2_bytes_per_ns;
  t.gpu.capability = 90;
  t.gpu.shared_per_block = 232448;
  t.gpu.shared_per_multiprocessor = 233472;
  t.gpu.matrix_per_ns = 495000.0 / 132;
  t.gpu.matrix_gigahertz = 1.755;  // seen during `tile-bench run` on products of bf16 at 4096^3
  return t;
}

Target a100_target() {
  Target t = gpu_target("sm_80", 108, 1.41, 1555);
  t.fma_per_ns = 64 * 1.41;
  t.l2_bytes = 40 << 20;
  t.l2_bytes_per_ns = 4000.0 / 108;
  t.l3_bytes_per_ns = t.l2_bytes_per_ns;
  t.gpu.capability = 80;
  t.gpu.shared_per_block = 166912;
  t.gpu.shared_per_multiprocessor = 167936;
  t.gpu.matrix_per_ns = 156000.0 / 108;
  return t;
}

std::optional<Target> gpu_target(std::string_view features) {
  if (!features.starts_with("sm_")) return std::nullopt;
  std::string_view digits = features.substr(3);
  if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) digits.remove_suffix(1);
  int capability = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || capability < 70 || capability > 200) return std::nullopt;
  Target t = capability >= 90 ? h200_target() : a100_target();
  t.features = std::string(features);
  t.gpu.capability = capability;
  bool large = capability == 80 || capability == 90 || capability == 100;
  if (!large) {  // the smaller chips of a generation hold 64 or 100 KiB and fewer threads
    t.gpu.shared_per_block = capability < 80 ? 65536 : 101376;
    t.gpu.shared_per_multiprocessor = capability < 80 ? 65536 : 102400;
    t.gpu.threads_per_multiprocessor = capability < 80 ? 1024 : 1536;
  }
  return t;
}

}  // namespace tile
