// The instructions of Hopper that the matrix leaf uses, as device functions.
#include "backends/cuda/matrix/matrix_source.h"

namespace tile::cuda {

namespace {

constexpr const char* kBarriers = R"(
#pragma nv_diag_suppress 177
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

FN unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
FN void barrier_init(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
FN void barrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
FN void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
FN void barrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra reached;\n"
      "bra again;\n"
      "reached:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
FN void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
}
FN void group_sync(unsigned barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}
FN void cluster_sync() {  // warps arrive as one
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
FN unsigned cluster_address(unsigned own, unsigned block) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(own), "r"(block));
  return r;
}
FN uint4 cluster_words(unsigned from) {
  uint4 r;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "r"(from)
               : "memory");
  return r;
}
FN void share_words(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
FN void add_word(float& sum, unsigned bits) { sum += __uint_as_float(bits); }
FN void add_word(int& sum, unsigned bits) { sum = static_cast<int>(sum + bits); }
)";

constexpr const char* kMultiply = R"(
FN void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void multiply_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
FN void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
FN void copies_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FN void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending>
FN void store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
FN void map_prefetch(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
FN void store_matrices(unsigned address, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
template <class Narrow>
FN unsigned pair_bits(Narrow low, Narrow high) {
  return static_cast<unsigned>(low.bits) | static_cast<unsigned>(high.bits) << 16;
}
FN unsigned word_bits(float value) { return __float_as_uint(value); }
FN unsigned word_bits(int value) { return static_cast<unsigned>(value); }
FN unsigned word_bits(unsigned value) { return value; }
FN void store_bytes(unsigned address, unsigned char a, unsigned char b) {
  const unsigned short pair = a | b << 8;
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(pair) : "memory");
}
FN void store_pair(unsigned address, unsigned a, unsigned b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}
)";

// "{%from, %from+1, …}"
std::string operand_list(int from, int count) {
  std::string list = "{";
  for (int i = 0; i < count; ++i) {
    if (i > 0) list += ", ";
    list += "%" + std::to_string(from + i);
  }
  return list + "}";
}

std::string coordinate_parameters(int rank) {
  std::string text;
  for (int d = 0; d < rank; ++d) text += ", int c" + std::to_string(d);
  return text;
}

std::string coordinate_operands(int rank) {
  std::string text;
  for (int d = 0; d < rank; ++d) text += ", \"r\"(c" + std::to_string(d) + ")";
  return text;
}

std::string box_copies(int rank) {
  std::string dims = std::to_string(rank) + "d";
  std::string load = "FN void box_load(unsigned to, const TensorMap* map, unsigned barrier" +
                     coordinate_parameters(rank) + ") {\n  asm volatile(\"cp.async.bulk.tensor." +
                     dims + ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, " +
                     operand_list(3, rank) + "], [%2];\" ::\"r\"(to), \"l\"(map), \"r\"(barrier)" +
                     coordinate_operands(rank) + " : \"memory\");\n}\n";
  std::string store = "FN void box_store(const TensorMap* map, unsigned from" +
                      coordinate_parameters(rank) + ") {\n  asm volatile(\"cp.async.bulk.tensor." +
                      dims + ".global.shared::cta.bulk_group [%0, " + operand_list(2, rank) +
                      "], [%1];\" ::\"l\"(map), \"r\"(from)" + coordinate_operands(rank) +
                      " : \"memory\");\n}\n";
  return load + store;
}

}  // namespace

std::string matrix_prelude() {
  std::string text = "#ifndef TILE_HOST_EMULATION\n" + std::string(kBarriers) + kMultiply;
  for (int rank = 1; rank <= 5; ++rank) text += box_copies(rank);
  // The emulation knows what streams need of it.
  return text + "#else\nusing namespace tile_emulation::bulk;\n#endif\n";
}

}  // namespace tile::cuda
