#pragma once
// Mathematics as plain LLVM IR: every function takes and gives a scalar or a fixed vector, of any
// number of lanes, and emits instructions that need no optimisation passes afterwards.
//
// Floating functions take float or double (half and bfloat are widened by the caller, spec 5.7).
// Special values (NaN, infinities, signed zeros, subnormals) follow C99 annex F. The largest
// errors, in units in the last place, stand beside each function as float / double;
// test_vector_math checks them. Fused multiply-adds are explicit and no instruction carries
// fast-math flags, so the bits do not depend on the number of lanes or on the target.
//
// The double forms of pow, fmod, erf and gelu call the C library once per lane; those of sin, cos
// and tan do so only beyond |x| > 2^27. Symbols of the process must be visible to the JIT.
//
// Functions marked "outlined" (and the double forms of erf and gelu) add an internal function to
// the module and call it: nothing here splits the caller's block. Targets without FMA instructions
// get the same bits from the C library's fma, slowly. The builder must have an insertion point
// inside a function of a module.

#include <llvm/IR/IRBuilder.h>

namespace tile::cpu {

// Exponentials.
llvm::Value* emit_exp(llvm::IRBuilderBase& ir, llvm::Value* x);    // 1 / 1
llvm::Value* emit_exp2(llvm::IRBuilderBase& ir, llvm::Value* x);   // 1 / 1
llvm::Value* emit_expm1(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2.25 / 2.25
/// 1 / (1 + e^-x)
llvm::Value* emit_sigmoid(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2.5 / 2.5
llvm::Value* emit_tanh(llvm::IRBuilderBase& ir, llvm::Value* x);     // 2.75 / 2.75
llvm::Value* emit_sinh(llvm::IRBuilderBase& ir, llvm::Value* x);     // 2 / 2
llvm::Value* emit_cosh(llvm::IRBuilderBase& ir, llvm::Value* x);     // 2 / 2

// Logarithms.
llvm::Value* emit_log(llvm::IRBuilderBase& ir, llvm::Value* x);    // 1 / 1
llvm::Value* emit_log2(llvm::IRBuilderBase& ir, llvm::Value* x);   // 2 / 2
llvm::Value* emit_log1p(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2 / 2
/// log(1 + e^x)
llvm::Value* emit_softplus(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2.25 / 2.25
llvm::Value* emit_asinh(llvm::IRBuilderBase& ir, llvm::Value* x);     // 2.25 / 2.25
llvm::Value* emit_acosh(llvm::IRBuilderBase& ir, llvm::Value* x);     // 2.25 / 2.25
llvm::Value* emit_atanh(llvm::IRBuilderBase& ir, llvm::Value* x);     // 2.5 / 2.5

// Trigonometry. Arguments are reduced exactly over the whole range. Outlined.
llvm::Value* emit_sin(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2 / 2
llvm::Value* emit_cos(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2 / 2
llvm::Value* emit_tan(llvm::IRBuilderBase& ir, llvm::Value* x);  // 4 / 4
// Inverse trigonometry.
llvm::Value* emit_asin(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2.5 / 2.5
llvm::Value* emit_acos(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2 / 2
llvm::Value* emit_atan(llvm::IRBuilderBase& ir, llvm::Value* x);  // 2 / 2
/// 2 / 2
llvm::Value* emit_atan2(llvm::IRBuilderBase& ir, llvm::Value* y, llvm::Value* x);

// The error function.
llvm::Value* emit_erf(llvm::IRBuilderBase& ir, llvm::Value* x);  // 1.75 / 1.5
/// x (1 + erf(x/sqrt 2)) / 2, accurate in the left tail too.
llvm::Value* emit_gelu(llvm::IRBuilderBase& ir, llvm::Value* x);  // 3.5 / 6

// Powers and remainders. Outlined.
/// C's pow, all special cases.
llvm::Value* emit_pow(llvm::IRBuilderBase& ir, llvm::Value* x, llvm::Value* y);  // 0.51 / 1
/// C's fmod, exact.
llvm::Value* emit_fmod(llvm::IRBuilderBase& ir, llvm::Value* x, llvm::Value* y);

// Correctly rounded; rsqrt is off by at most 1.5 ulp.
llvm::Value* emit_abs(llvm::IRBuilderBase& ir, llvm::Value* x);
llvm::Value* emit_floor(llvm::IRBuilderBase& ir, llvm::Value* x);
llvm::Value* emit_ceil(llvm::IRBuilderBase& ir, llvm::Value* x);
llvm::Value* emit_trunc(llvm::IRBuilderBase& ir, llvm::Value* x);
/// To the nearest integer, ties to even.
llvm::Value* emit_round(llvm::IRBuilderBase& ir, llvm::Value* x);
llvm::Value* emit_sqrt(llvm::IRBuilderBase& ir, llvm::Value* x);
llvm::Value* emit_rsqrt(llvm::IRBuilderBase& ir, llvm::Value* x);
llvm::Value* emit_reciprocal(llvm::IRBuilderBase& ir, llvm::Value* x);

/// The larger (smaller) of two floating values: NaN if either is NaN, and +0 above -0, so that a
/// reduction does not depend on its order.
llvm::Value* emit_max(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b);
/// Lets emit_max use AVX-512's range instructions (features DQ and VL) in this module: the same
/// values in fewer instructions.
void use_range_instructions(llvm::Module& module);
llvm::Value* emit_min(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b);
/// -1, +0 or 1 of a floating value; NaN is kept.
llvm::Value* emit_sign(llvm::IRBuilderBase& ir, llvm::Value* x);

/// max(x, +0); NaN is kept.
llvm::Value* emit_relu(llvm::IRBuilderBase& ir, llvm::Value* x);

// Conversions.
/// float or double to an integer of `width` (8, 16, 32, 64) bits: truncates, saturates, NaN gives
/// 0.
llvm::Value* emit_float_to_int(llvm::IRBuilderBase& ir, llvm::Value* x, unsigned width,
                               bool is_signed);
/// bfloat16 is held as i16 lanes. Rounds once, to nearest even, from float or double; NaN stays
/// NaN.
llvm::Value* emit_bf16_from_float(llvm::IRBuilderBase& ir, llvm::Value* x);
/// bfloat16 in i16 lanes to float; exact.
llvm::Value* emit_float_from_bf16(llvm::IRBuilderBase& ir, llvm::Value* bits);

/// How IEEE half precision is converted.
enum class HalfConversion {
  Hardware,  // fpext and fptrunc: the target has F16C (every x86 CPU with AVX2)
  Integer,   // integer arithmetic only, any target
};
/// IEEE half is held as i16 lanes. Rounds once, to nearest even, from float or double.
llvm::Value* emit_f16_from_float(llvm::IRBuilderBase& ir, llvm::Value* x, HalfConversion how);
/// IEEE half in i16 lanes to float; exact.
llvm::Value* emit_float_from_f16(llvm::IRBuilderBase& ir, llvm::Value* bits, HalfConversion how);

/// A format of 8-bit floats.
struct F8Format {
  int mantissa;  // bits
  int bias;      // of the exponent
  int infinity;  // its encoding; 0: there is none
  int nan;       // the encoding that is written; any from it or above infinity on is read as NaN
};
/// OCP 8-bit floating point specification (revision 1.0, 2023), section 5.
constexpr F8Format kF8E4M3{3, 7, 0, 0x7f};
constexpr F8Format kF8E5M2{2, 15, 0x7c, 0x7e};
/// In i8 lanes. Rounds once, to nearest even, from float or double; beyond the largest number it is
/// infinity, or NaN where the format has no infinity.
llvm::Value* emit_f8_from_float(llvm::IRBuilderBase& ir, llvm::Value* x, const F8Format& format);
/// f8 in i8 lanes to float; exact.
llvm::Value* emit_float_from_f8(llvm::IRBuilderBase& ir, llvm::Value* bits, const F8Format& format);

// Integers, of any width and number of lanes; nothing traps (spec 5.5).
/// Truncating quotient; a/0 is 0, INT_MIN / -1 wraps.
llvm::Value* emit_int_div(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b, bool is_signed);
/// Remainder with the sign of the dividend; a%0 is 0.
llvm::Value* emit_int_rem(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b, bool is_signed);
/// Shifts by an amount that is read as unsigned; by the width or more they give 0, and the
/// arithmetic right shift the sign.
llvm::Value* emit_shift_left(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* amount);
llvm::Value* emit_shift_right(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* amount,
                              bool is_signed);

}  // namespace tile::cpu
