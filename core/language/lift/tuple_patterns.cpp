// Tuples of arrays and arrays of tuples, and arrays made of their indices.
#include <algorithm>

#include "core/language/lift/evaluator.h"

namespace tile::lift {
namespace {

// Zip, Unzip, Tuple, Get.

Value zip(Evaluator& ev, const std::vector<Value>& arrays, Span span) {
  int depth = 0;
  std::vector<TypePtr> parts;
  for (const Value& v : arrays) {
    require_array(v, "Zip", span);
    depth = std::max(depth, v.array->depth);
    parts.push_back(v.type->parts[0]);
    std::string text = "Zip needs arrays of one length: found " + to_string(*arrays[0].type) +
                       " and " + to_string(*v.type);
    ev.context.require(
        {arrays[0].length(), SizeCheck::Relation::equal, v.length(), "type", text, span});
  }
  auto at = [arrays](const Expr& i) {
    std::vector<Value> elements;
    for (const Value& v : arrays) elements.push_back(v.array->at(i));
    return tuple_value(std::move(elements));
  };
  return with_rows(array_of(arrays[0].length(), tuple_type(std::move(parts)), at, depth + 1),
                   arrays[0].array->rows);
}

std::vector<Value> given(const PatternUse& use) {
  std::vector<Value> values;
  for (size_t i = 0; i < use.params.size(); ++i) {
    values.push_back(use.param(i));
    if (values.back().function) fail_type(use.param_span(i), "data", *values.back().type);
  }
  return values;
}

Value make_zip(const PatternUse& use) {
  if (use.params.size() == 1) {
    fail(Stage::parse, "arity", use.span, "Zip expects 2 or more parameters, found 1");
  }
  if (!use.params.empty()) return zip(use.ev, given(use), use.span);
  return unary("Zip", [&ev = use.ev](Value v, Span span) {
    if (v.parts.size() < 2) fail_type(span, "Zip to be applied to a tuple of arrays", *v.type);
    return zip(ev, v.parts, span);
  });
}

Value make_unzip(const PatternUse&) {
  return unary("Unzip", [](Value v, Span span) {
    if (!v.array || v.type->parts[0]->kind != TypeKind::tuple) {
      fail_type(span, "Unzip to be applied to an array of tuples", *v.type);
    }
    std::vector<Value> parts;
    const std::vector<TypePtr>& types = v.type->parts[0]->parts;
    for (size_t p = 0; p < types.size(); ++p) {
      parts.push_back(array_of(
          v.length(), types[p], [v, p](const Expr& i) { return v.array->at(i).parts[p]; },
          v.array->depth + 1));
    }
    return tuple_value(std::move(parts));
  });
}

Value make_tuple(const PatternUse& use) { return tuple_value(given(use)); }

Value component(const Value& v, const PatternUse& use, size_t param, Span span) {
  Expr i = use.size(param, "Get", 0);
  if (v.parts.empty()) fail_type(span, "Get to be applied to a tuple", *v.type);
  bool inside = i.is_constant() && i.value() < static_cast<int64_t>(v.parts.size());
  if (!inside) {
    fail(Stage::parse, "index", use.param_span(param),
         "Get(" + to_string(i) + ") of a tuple of " + std::to_string(v.parts.size()) +
             " components: " + to_string(*v.type));
  }
  return v.parts[static_cast<size_t>(i.value())];
}

Value make_get(const PatternUse& use) {
  if (use.params.size() == 2) return component(use.param(0), use, 1, use.span);
  return unary("Get", [use](Value v, Span span) { return component(v, use, 0, span); });
}

// Generate, Value.

Value make_generate(const PatternUse& use) {
  Value f = use.param(0);
  if (!f.function) fail_type(use.param_span(0), "a function of the index", *f.type);
  Expr n = use.size(1, "Generate", 0);
  auto at = [&ev = use.ev, f, n, span = use.span](const Expr& i) {
    std::vector<Value> args = {scalar_value(index_scalar(i))};
    if (f.function->arity == 2) args.push_back(scalar_value(index_scalar(n)));
    return ev.apply(f, std::move(args), span);
  };
  Value sample = at(use.ev.context.fresh(n));
  if (sample.function) fail_type(use.param_span(0), "elements that are data", *sample.type);
  return array_of(n, sample.type, at, 1);
}

Value filled(const Value& v, const TypePtr& type) {
  if (type->kind != TypeKind::array) return v;
  TypePtr part = type->parts[0];
  return array_value(type, [v, part](const Expr&) { return filled(v, part); }, 1);
}

Value make_value(const PatternUse& use) {
  Value v = use.param(0);
  if (!v.scalar) fail_type(use.param_span(0), "a Float or an Int", *v.type);
  if (use.params.size() == 1) return v;
  TypePtr type = use.ev.type_of(use.params[1]), leaf = type;
  while (leaf->kind == TypeKind::array) leaf = leaf->parts[0];
  Value element = use.ev.converted(v, leaf);
  if (element.type->kind != leaf->kind) {
    fail_type(use.param_span(0), "a value of type " + to_string(*leaf), *v.type);
  }
  return filled(element, type);
}

}  // namespace

std::vector<Pattern> tuple_patterns() {
  return {{"Zip", 0, 64, make_zip}, {"Unzip", 0, 0, make_unzip},       {"Tuple", 1, 64, make_tuple},
          {"Get", 1, 2, make_get},  {"Generate", 2, 2, make_generate}, {"Value", 1, 2, make_value}};
}

}  // namespace tile::lift
