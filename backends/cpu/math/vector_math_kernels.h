#pragma once
// The pieces that several math functions share. Internal to backends/cpu/vector_math_*.cpp.

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include "backends/cpu/math/vector_math_lanes.h"

namespace tile::cpu::lanes {

/// x = n*ln2 + r with n an integer and |r| <= ln2/2. `shifted` holds, in its low bits, n plus the
/// offset that was asked for.
struct ExpArgument {
  Real r;
  Bits shifted;
};
/// Reduces x, which the caller has clamped so that n fits 16 bits; NaN gives a NaN r.
ExpArgument reduce_by_ln2(Real x, int offset);
/// e^r for a reduced argument; relative error 2^-26 (float), 2^-56 (double) before rounding.
Real exp_reduced(Real r);
/// e^r - 1 for a reduced argument, accurate relative to r.
Real expm1_reduced(Real r);
/// p * 2^n rounded once, also where the result is subnormal or overflows. `shifted` holds n plus
/// twice the exponent bias. NaN in p stays NaN.
Real scale_twice(Real p, Bits shifted);
/// 2^n where `shifted` holds n plus the exponent bias; n must be in the normal range.
Real power_of_two(Bits shifted, Real like);
/// e^x for any x, all special values included.
Real exp(Real x);

/// x = 2^e (1 + f) with |f| <= 1/3.
struct LogParts {
  Real f, e;
};
/// The parts of a positive finite x, subnormals included; anything for other x.
LogParts parts_of(Real x);
/// The shared tail of the logarithms: log(1 + f) + e*ln2 for |f| <= 1/3 (slightly more is
/// harmless).
Real log_of_parts(Real f, Real e);
/// log(1 + x) + extra*ln2. Right for x >= 0, NaN and +infinity; and for -1 <= x < 0.
/// x < -1 gives NaN, -1 gives -infinity; the sign of a zero is lost.
Real log1p_plus(Real x, Real extra);

/// Calls an internal function of the module, made on first use by `body` from its parameters. Long
/// functions and those with control flow live there, so that the caller's block stays straight.
/// `name` must determine the body; the types of the arguments are appended to it.
Real outlined(llvm::StringRef name, llvm::ArrayRef<Real> arguments,
              llvm::function_ref<Real(llvm::ArrayRef<Real>)> body);
/// `values`, replaced by what `slow` returns where any lane of `condition` holds; `slow` is emitted
/// in a block of its own and must itself select by lane. Moves the builder to a new block.
llvm::SmallVector<llvm::Value*, 2> when_any(
    Mask condition, llvm::ArrayRef<llvm::Value*> values,
    llvm::function_ref<llvm::SmallVector<llvm::Value*, 2>()> slow);
/// Calls the C library's `double name(double...)` once per lane.
Real libm_per_lane(llvm::StringRef name, llvm::ArrayRef<Real> arguments);

}  // namespace tile::cpu::lanes
