#include "tests/lattice/oracle.h"

#include <isl/ctx.h>
#include <isl/ilp.h>
#include <isl/map.h>
#include <isl/set.h>
#include <isl/union_map.h>
#include <isl/val.h>

#include <stdexcept>

namespace tile::lattice::testing {
namespace {

std::vector<std::string> iterator_names(size_t count, const std::string& stem) {
  std::vector<std::string> r;
  for (size_t i = 0; i < count; ++i) r.push_back(stem + std::to_string(i));
  return r;
}

std::string tuple(const std::vector<std::string>& items) {
  std::string r = "[";
  for (size_t i = 0; i < items.size(); ++i) r += (i ? ", " : "") + items[i];
  return r + "]";
}

// The form times its common denominator, as isl reads it.
std::string scaled_text(const Affine& form, int64_t& denominator,
                        const std::vector<std::string>& names) {
  denominator = form.constant.den();
  for (const Rational& c : form.coefficients) denominator = lcm(denominator, c.den());
  return "(" + to_string(form * Rational(denominator), names) + ")";
}

std::string conditions_text(const System& system, const std::vector<std::string>& names) {
  std::string r = "0 = 0";
  for (const Condition& c : system.conditions) {
    int64_t d = 1;
    std::string form = scaled_text(c.form, d, names);
    r += " and " + std::to_string(checked_mul(d, c.lo)) + " <= " + form + " < " +
         std::to_string(checked_mul(d, c.hi));
    if (c.integral && d != 1) r += " and " + form + " mod " + std::to_string(d) + " = 0";
  }
  return r;
}

std::string piece_text(const Piece& piece, const std::vector<std::string>& names) {
  std::string r = conditions_text(piece.system, names);
  for (size_t i = 0; i < names.size(); ++i) {
    r += " and " + std::to_string(piece.box[i].lo) + " <= " + names[i] +
         " <= " + std::to_string(piece.box[i].hi);
  }
  return r;
}

int64_t whole_value(isl_val* value) {
  bool whole = isl_val_is_int(value) == isl_bool_true;
  int64_t r = whole ? isl_val_get_num_si(value) : 0;
  isl_val_free(value);
  if (!whole) throw std::runtime_error("isl gave no integer");
  return r;
}

}  // namespace

Oracle::Oracle() : context_(isl_ctx_alloc()) {}
Oracle::~Oracle() { isl_ctx_free(context_); }

Oracle::Set Oracle::parse(const std::string& text) {
  isl_set* set = isl_set_read_from_str(context_, text.c_str());
  if (!set) throw std::runtime_error("isl cannot read " + text);
  return Set(set, [](isl_set* s) { isl_set_free(s); });
}

Oracle::Set Oracle::points(const System& system) {
  std::vector<std::string> names = iterator_names(system.iterators, "x");
  return parse("{ " + tuple(names) + " : " + conditions_text(system, names) + " }");
}

Oracle::Set Oracle::piece_points(const Piece& piece) {
  std::vector<std::string> names = iterator_names(piece.system.iterators, "z");
  return parse("{ " + tuple(names) + " : " + piece_text(piece, names) + " }");
}

Oracle::Set Oracle::points(const Piece& piece, const Substitution& to_system) {
  std::vector<std::string> names = iterator_names(piece.system.iterators, "z");
  std::vector<std::string> old = iterator_names(to_system.old_in_new.size(), "x");
  std::string text = "{ " + tuple(old) + " : exists " + (names.empty() ? "q" : "");
  for (size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
  text += " : " + piece_text(piece, names);
  for (size_t i = 0; i < old.size(); ++i) {
    Affine form = substitute(to_system.old_in_new[i], piece.substitution.old_in_new);
    text += " and " + old[i] + " = " + to_string(form, names);
  }
  return parse(text + " }");
}

bool Oracle::empty(const Set& set) { return isl_set_is_empty(set.get()) == isl_bool_true; }
bool Oracle::bounded(const Set& set) { return isl_set_is_bounded(set.get()) == isl_bool_true; }
bool Oracle::equal(const Set& a, const Set& b) {
  return isl_set_is_equal(a.get(), b.get()) == isl_bool_true;
}
bool Oracle::disjoint(const Set& a, const Set& b) {
  return isl_set_is_disjoint(a.get(), b.get()) == isl_bool_true;
}
Oracle::Set Oracle::unite(const Set& a, const Set& b) {
  isl_set* set = isl_set_union(isl_set_copy(a.get()), isl_set_copy(b.get()));
  return Set(set, [](isl_set* s) { isl_set_free(s); });
}
Interval Oracle::range(const Set& set, size_t iterator) {
  return {whole_value(isl_set_dim_min_val(isl_set_copy(set.get()), int(iterator))),
          whole_value(isl_set_dim_max_val(isl_set_copy(set.get()), int(iterator)))};
}
int64_t Oracle::count(const Set& set) { return whole_value(isl_set_count_val(set.get())); }

}  // namespace tile::lattice::testing
