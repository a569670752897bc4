// pow and fmod. Float is computed in double: pow is then right to the last bit but for rare ties.

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace lanes {
namespace {

// log(1+f) = f - f^2/2 + f^3 P(f), |f| <= 1/3. Relative error 2^-40.8.
constexpr double log_coefficients[] = {
    0.33333333336134696, -0.24999999722363384, 0.19999999180847905, -0.1666670537704752,
    0.14285785500528497, -0.12498075688967727, 0.1110832792081299,  -0.10045446430759436,
    0.09147247467667138, -0.0778504527893807,  0.07083721714433266, -0.10332109646688542,
    0.09914921087772471};

// 2^r = 1 + r P(r), |r| <= 1/2. Relative error 2^-34.3.
constexpr double exp2_coefficients[] = {
    0.693147180541243,    0.24022651076234308,    0.05550410964023281,   0.009618036842749615,
    0.001333342973129122, 0.00015467134979581224, 1.5315163949136996e-05};

/// log2 of a > 0 in double, to 2^-40 of itself; a may be 0 or infinite.
Real log2_medium(Real a) {
  auto [f, e] = parts_of(a);
  Real u = fma(polynomial(f, log_coefficients), f, -0.5);
  Real r = fma(fma(f * f, u, f), 0x1.71547652b82fep+0, e);
  return select(a == 0.0, -infinity, select(a == infinity, a, r));
}

/// 2^x in double, to 2^-34 of itself, for |x| <= 1000.
Real exp2_medium(Real x) {
  Format format = format_of(x);
  double magic = format.shift_magic + static_cast<double>(format.bias);
  Real shifted = x + magic;
  Real r = x - (shifted - magic);
  return fma(polynomial(r, exp2_coefficients), r, 1.0) * power_of_two(bits_of(shifted), x);
}

/// `magnitude` = |x|^y with the sign and the special cases that C99 7.12.7.4 gives x^y.
Real pow_specials(Real x, Real y, Real magnitude) {
  Mask whole = trunc(y) == y;
  Real half = y * 0.5;
  Mask odd = whole & ~(trunc(half) == half);
  Real a = abs(x);
  Real r = select(odd, copysign(magnitude, x), magnitude);
  r = select((x < 0.0) & (a < infinity) & ~whole, not_a_number, r);
  Mask always_one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (abs(y) == infinity));
  return select(always_one, 1.0, select(either_nan(x, y), x + y, r));
}

Real pow_single(Real x, Real y) {
  Real exponent = widen(y) * log2_medium(widen(abs(x)));
  Real bounded = at_most(at_least(exponent, -300.0), 300.0);
  return pow_specials(x, y, narrow(exp2_medium(bounded)));
}

Real pow(Real x, Real y) {
  return outlined("pow", {x, y}, [](llvm::ArrayRef<Real> p) {
    return is_double(p[0]) ? libm_per_lane("pow", p) : pow_single(p[0], p[1]);
  });
}

/// One step of fmod: r less a multiple of b, exactly; r >= b > 0, both normal doubles that came
/// from floats. The quotient stays below 2^51 by scaling b, so it is off by one at most.
Real fmod_step(Real r, Real b) {
  Bits distance = shift_right(bits_of(r), 52) - shift_right(bits_of(b), 52);
  Bits excess = distance - 50;
  Bits scale = select(is_negative(excess), constant(excess, 0), excess);
  Real scaled = real_of(bits_of(b) + shift_left(scale, 52));
  Real quotient = trunc(r / scaled);
  Real left = fma(-quotient, scaled, r);
  return select(left < 0.0, left + scaled, left);
}

/// r mod b by steps, while any lane has r >= b.
Real fmod_loop(Real first, Real b) {
  llvm::IRBuilderBase& ir = *first.ir;
  llvm::BasicBlock* before = ir.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* test = llvm::BasicBlock::Create(ir.getContext(), "test", function);
  auto* step = llvm::BasicBlock::Create(ir.getContext(), "step", function);
  auto* done = llvm::BasicBlock::Create(ir.getContext(), "done", function);
  ir.CreateBr(test);
  ir.SetInsertPoint(test);
  llvm::PHINode* phi = ir.CreatePHI(first.value->getType(), 2);
  Real r{&ir, phi};
  Mask small = r < b;
  llvm::Value* any = (~small).value;
  if (any->getType()->isVectorTy()) any = ir.CreateOrReduce(any);
  ir.CreateCondBr(any, step, done);
  ir.SetInsertPoint(step);
  Real next = select(small, r, fmod_step(r, b));
  ir.CreateBr(test);
  phi->addIncoming(first.value, before);
  phi->addIncoming(next.value, step);
  ir.SetInsertPoint(done);
  return r;
}

Real fmod_single(Real x, Real y) {
  Real a = widen(abs(x));
  Real b = widen(abs(y));
  Mask defined = (a < infinity) & (b > 0.0);
  // Lanes without a result end the loop at once; so do those with b infinite.
  Real r = fmod_loop(select(defined, a, 0.0), select(defined, b, 1.0));
  return select(defined, copysign(narrow(r), x), not_a_number);
}

Real fmod(Real x, Real y) {
  return outlined("fmod", {x, y}, [](llvm::ArrayRef<Real> p) {
    return is_double(p[0]) ? libm_per_lane("fmod", p) : fmod_single(p[0], p[1]);
  });
}

}  // namespace
}  // namespace lanes

llvm::Value* emit_pow(llvm::IRBuilderBase& ir, llvm::Value* x, llvm::Value* y) {
  return lanes::emit(ir, lanes::pow, x, y);
}
llvm::Value* emit_fmod(llvm::IRBuilderBase& ir, llvm::Value* x, llvm::Value* y) {
  return lanes::emit(ir, lanes::fmod, x, y);
}

}  // namespace tile::cpu
