#include "backends/cpu/emit/amx_emitter.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

namespace tile::cpu {
namespace {

constexpr size_t kRegisters = 8;
constexpr size_t kConfigurationBytes = 64, kRowBytesAt = 16, kRowsAt = 48;

const nest::Alloc* begun_at(const nest::Block& statements, size_t i) {
  return i < statements.size() ? std::get_if<nest::Alloc>(&statements[i].what) : nullptr;
}

// The products into these sums, anywhere in the statements from `first` on.
void collect(const nest::Block& statements, size_t first,
             const std::map<nest::BufferId, unsigned>& sums,
             std::vector<const nest::MatrixTile*>& found) {
  for (size_t i = first; i < statements.size(); ++i) {
    const nest::Statement& s = statements[i];
    if (const auto* f = std::get_if<nest::For>(&s.what)) {
      collect(f->body, 0, sums, found);
    } else if (const auto* guard = std::get_if<nest::If>(&s.what)) {
      collect(guard->then, 0, sums, found);
      collect(guard->otherwise, 0, sums, found);
    } else if (const auto* m = std::get_if<nest::MatrixTile>(&s.what)) {
      if (sums.contains(m->sum)) found.push_back(m);
    }
  }
}

int64_t elements(const std::vector<int64_t>& steps, const nest::Buffer& b) {
  int64_t sum = 0;
  for (size_t d = 0; d < steps.size(); ++d) sum += steps[d] * b.strides[d];
  return sum;
}

void set_size(std::string& bytes, unsigned number, std::pair<int64_t, int64_t> size) {
  bytes[kRowsAt + number] = static_cast<char>(size.first);
  bytes[kRowBytesAt + 2 * number] = static_cast<char>(size.second);
}

llvm::Intrinsic::ID product(const nest::MatrixTile& m) {
  namespace I = llvm::Intrinsic;
  if (m.a_type == DType::bf16) return I::x86_tdpbf16ps;
  bool a = m.a_type == DType::i8, b = m.b_type == DType::i8;
  if (a) return b ? I::x86_tdpbssd : I::x86_tdpbsud;
  return b ? I::x86_tdpbusd : I::x86_tdpbuud;
}

}  // namespace

bool AmxEmitter::begins_tiles(const nest::Block& statements, size_t first) const {
  auto fragment = [&](size_t i) {
    const nest::Alloc* a = begun_at(statements, i);
    return a != nullptr && c_.buffer(a->buffer).scope == nest::Scope::fragment;
  };
  return fragment(first) && (first == 0 || !fragment(first - 1));
}

AmxEmitter::TileSize AmxEmitter::rows_of(const nest::MatrixTile& m, const nest::Buffer& sum) {
  return {sum.shape[0], m.terms * static_cast<int64_t>(byte_size(m.a_type))};
}
AmxEmitter::TileSize AmxEmitter::columns_of(const nest::MatrixTile& m, const nest::Buffer& sum) {
  return {m.terms / nest::packed_factors(m.b_type), sum.shape[1] * 4};
}

// Gives registers to the fragments whose lives begin here, and the others to operands: at least one
// to those of each size.
void AmxEmitter::configure_tiles(const nest::Block& statements, size_t first) {
  tiles_ = {};
  std::string bytes(kConfigurationBytes, 0);
  bytes[0] = 1;
  unsigned next = 0;
  for (size_t i = first; begun_at(statements, i) != nullptr; ++i) {
    nest::BufferId id = begun_at(statements, i)->buffer;
    const nest::Buffer& b = c_.buffer(id);
    if (b.scope != nest::Scope::fragment) break;
    set_size(bytes, next, {b.shape[0], b.shape[1] * 4});
    tiles_.sums[id] = next++;
  }
  std::vector<const nest::MatrixTile*> products;
  collect(statements, first, tiles_.sums, products);
  std::vector<std::pair<TilePool*, TileSize>> pools;
  std::map<TilePool*, std::set<std::string>> wanted;
  auto want = [&](std::map<TileSize, TilePool>& all, TileSize size, const nest::MatrixPart& part) {
    auto [at, added] = all.try_emplace(size);
    if (added) pools.emplace_back(&at->second, size);
    std::string name;
    for (const Expr& e : part.origin) name += to_string(e) + ",";
    wanted[&at->second].insert(name);
  };
  for (const nest::MatrixTile* m : products) {
    const nest::Buffer& sum = c_.buffer(m->sum);
    want(tiles_.rows, rows_of(*m, sum), m->a_part);
    want(tiles_.columns, columns_of(*m, sum), m->b_part);
  }
  internal_check(next + pools.size() <= kRegisters, "cpu: more tiles than registers");
  for (bool some = true; some && next < kRegisters;) {
    some = false;
    for (auto& [pool, size] : pools) {
      if (next == kRegisters || pool->registers.size() >= wanted[pool].size()) continue;
      set_size(bytes, next, size);
      pool->registers.push_back(next++);
      pool->held.emplace_back();
      some = true;
    }
  }
  load_configuration(bytes);
}

void AmxEmitter::begin_configuration() {
  if (configured_ != nullptr) return;
  llvm::BasicBlock& entry = c_.function.getEntryBlock();
  llvm::IRBuilder<> begin(&entry, entry.getFirstInsertionPt());
  configured_ = begin.CreateAlloca(begin.getInt32Ty());
  begin.CreateStore(begin.getInt32(0), configured_);
  c_.cells.push_back(configured_);
}

void AmxEmitter::forget_configuration() {
  if (configured_ != nullptr) c_.ir.CreateStore(c_.ir.getInt32(0), configured_);
}

// Loading takes longer than a test, and tiles of one size follow each other.
void AmxEmitter::load_configuration(const std::string& bytes) {
  begin_configuration();
  uint32_t number =
      configurations_.try_emplace(bytes, static_cast<uint32_t>(configurations_.size()) + 1)
          .first->second;
  llvm::Value* present = c_.ir.CreateLoad(c_.ir.getInt32Ty(), configured_);
  c_.conditional(c_.ir.CreateICmpNE(present, c_.ir.getInt32(number)), [&] {
    llvm::Module& module = *c_.function.getParent();
    llvm::Constant* data =
        llvm::ConstantDataArray::getString(c_.function.getContext(), bytes, false);
    auto* table = new llvm::GlobalVariable(module, data->getType(), true,
                                           llvm::GlobalValue::PrivateLinkage, data);
    table->setAlignment(llvm::Align(64));
    c_.ir.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {table});
    c_.ir.CreateStore(c_.ir.getInt32(number), configured_);
  });
}

Form AmxEmitter::place_of(nest::BufferId buffer, const nest::MatrixPart& part) {
  const nest::Buffer& b = c_.buffer(buffer);
  Form sum;
  for (size_t d = 0; d < part.origin.size(); ++d) {
    sum = sum + c_.indices.form(part.origin[d]) * b.strides[d];
  }
  return sum;
}

llvm::Value* AmxEmitter::row_bytes(nest::BufferId buffer, const nest::MatrixPart& part) {
  const nest::Buffer& b = c_.buffer(buffer);
  internal_check(elements(part.column, b) == 1, "cpu: a tile's row that is not contiguous");
  int64_t bytes = elements(part.row, b) * static_cast<int64_t>(byte_size(b.type));
  return c_.ir.getInt64(static_cast<uint64_t>(bytes));
}

// The register that holds the operand, loaded unless it has been since the block of code began.
unsigned AmxEmitter::tile_operand(TilePool& pool, nest::BufferId buffer,
                                  const nest::MatrixPart& part) {
  Form at = place_of(buffer, part);
  Key key{reinterpret_cast<uint64_t>(c_.ir.GetInsertBlock()),
          static_cast<uint64_t>(buffer.number())};
  append(key, at);
  auto known = std::find(pool.held.begin(), pool.held.end(), key);
  if (known != pool.held.end()) {
    return pool.registers[static_cast<size_t>(known - pool.held.begin())];
  }
  size_t place = pool.next;
  pool.next = (pool.next + 1) % pool.registers.size();
  pool.held[place] = key;
  unsigned number = pool.registers[place];
  c_.ir.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {},
                        {c_.ir.getInt8(static_cast<uint8_t>(number)), c_.memory.address(buffer, at),
                         row_bytes(buffer, part)});
  return number;
}

void AmxEmitter::multiply(const nest::MatrixTile& m) {
  const nest::Buffer& sum = c_.buffer(m.sum);
  auto known = tiles_.sums.find(m.sum);
  internal_check(m.terms > 0 && known != tiles_.sums.end() && c_.lanes.width == 1,
                 "cpu: a product of tiles that are not alive");
  unsigned a = tile_operand(tiles_.rows[rows_of(m, sum)], m.a, m.a_part);
  unsigned b = tile_operand(tiles_.columns[columns_of(m, sum)], m.b, m.b_part);
  auto number = [&](unsigned n) { return c_.ir.getInt8(static_cast<uint8_t>(n)); };
  c_.ir.CreateIntrinsic(product(m), {}, {number(known->second), number(a), number(b)});
}

void AmxEmitter::move(const nest::MatrixMove& m) {
  namespace I = llvm::Intrinsic;
  auto known = tiles_.sums.find(m.fragment);
  internal_check(known != tiles_.sums.end() && c_.lanes.width == 1,
                 "cpu: a tile that is not alive");
  llvm::Value* number = c_.ir.getInt8(static_cast<uint8_t>(known->second));
  if (m.kind == nest::MatrixMove::Kind::zero) {
    c_.ir.CreateIntrinsic(I::x86_tilezero, {}, {number});
    return;
  }
  bool load = m.kind == nest::MatrixMove::Kind::load;
  c_.ir.CreateIntrinsic(load ? I::x86_tileloadd64 : I::x86_tilestored64, {},
                        {number, c_.memory.address(m.buffer, place_of(m.buffer, m.part)),
                         row_bytes(m.buffer, m.part)});
  if (!load) c_.memory.forget(m.buffer);
}

}  // namespace tile::cpu
