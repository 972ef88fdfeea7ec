// SPDX-License-Identifier: Apache-2.0
// From an operator's list of fields to its C++ signature and its calls.
//
// An operator is a struct:
//   name, schema      as TORCH_LIBRARY wants them
//   constants()       the arguments struct with what the schema does not say
//   arguments         a tuple of its fields, in the order of the schema
//   results           a tuple of fields of the results struct, in the order of the schema
//   Derivative        of a forward operator: its backward operator
//   Recorded          of a forward operator: the one that runs where a derivative is needed
// An operator in place has neither of the last two, and no results. A field of tensor type is
// `const Tensor&` in the signature, optional(field) `Tensor?`, required(field) a value that may be
// absent elsewhere, named(field) a `str`, mask<n>(field) a `bool[n]`; any other field has its own
// type. The dispatcher compares the signature with the schema when the library is loaded.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <tuple>
#include <type_traits>

#include "arguments.h"

namespace fusednorm::operators {

// ---- one field: its type in a signature, its way into the arguments struct and out of it

/// Tensor?
template <typename Struct>
struct OptionalField {
  using Parameter = const Optional&;
  const Tensor* Struct::*member;
  void store(Struct& arguments, const Optional& value) const {
    if (value.has_value() && value->defined()) arguments.*member = &*value;
  }
  Optional load(const Struct& arguments) const {
    const auto* tensor = arguments.*member;
    return tensor == nullptr ? std::nullopt : Optional(*tensor);
  }
};
template <typename Struct>
constexpr OptionalField<Struct> optional(const Tensor* Struct::*member) {
  return {member};
}

/// A value that other operators may leave out.
template <typename Struct, typename Value>
struct RequiredField {
  using Parameter = Value;
  std::optional<Value> Struct::*member;
  void store(Struct& arguments, Value value) const { arguments.*member = value; }
  Value load(const Struct& arguments) const { return *(arguments.*member); }
};
template <typename Struct, typename Value>
constexpr RequiredField<Struct, Value> required(std::optional<Value> Struct::*member) {
  return {member};
}

/// str, the name of a rounding.
template <typename Struct>
struct RoundingField {
  using Parameter = c10::string_view;
  Rounding Struct::*member;
  void store(Struct& arguments, c10::string_view value) const {
    for (const auto rounding : {Rounding::once, Rounding::via_x, Rounding::via_param}) {
      if (value == name_of(rounding)) {
        arguments.*member = rounding;
        return;
      }
    }
    TORCH_CHECK_VALUE(false, name_of(arguments.operation),
                      ": rounding must be \"once\", \"via_x\" or \"via_param\", but it is \"",
                      std::string(value), "\"");
  }
  c10::string_view load(const Struct& arguments) const { return name_of(arguments.*member); }
};
template <typename Struct>
constexpr RoundingField<Struct> named(Rounding Struct::*member) {
  return {member};
}

/// bool[3] without a residual, bool[4] with one.
template <typename Struct, size_t count>
struct MaskField {
  using Parameter = std::array<bool, count>;
  Mask Struct::*member;
  void store(Struct& arguments, const Parameter& value) const {
    if constexpr (count == 4) {
      arguments.*member = {value[0], value[1], value[2], value[3]};
    } else {
      arguments.*member = {value[0], false, value[1], value[2]};
    }
  }
  Parameter load(const Struct& arguments) const {
    const auto& mask = arguments.*member;
    if constexpr (count == 4) {
      return {mask.input, mask.residual, mask.weight, mask.bias};
    } else {
      return {mask.input, mask.weight, mask.bias};
    }
  }
};
template <size_t count, typename Struct>
constexpr MaskField<Struct, count> mask(Mask Struct::*member) {
  return {member};
}

template <typename Struct, typename Field, typename Value>
void store(Struct& arguments, const Field& field, const Value& value) {
  if constexpr (std::is_same_v<Field, const Tensor * Struct::*>) {
    arguments.*field = &value;
  } else if constexpr (std::is_member_pointer_v<Field>) {
    arguments.*field = value;
  } else {
    field.store(arguments, value);
  }
}

template <typename Struct, typename Field>
decltype(auto) load(const Struct& arguments, const Field& field) {
  if constexpr (std::is_same_v<Field, const Tensor * Struct::*>) {
    return static_cast<const Tensor&>(*(arguments.*field));
  } else if constexpr (std::is_member_pointer_v<Field>) {
    return std::remove_cvref_t<decltype(arguments.*field)>(arguments.*field);
  } else {
    return field.load(arguments);
  }
}

template <typename Field>
struct ParameterOf {
  using type = typename Field::Parameter;
};
template <typename Struct>
struct ParameterOf<const Tensor * Struct::*> {
  using type = const Tensor&;
};
template <typename Struct, typename Value>
struct ParameterOf<Value Struct::*> {
  using type = Value;
};

// ---- all fields: the signature

template <typename Operator>
using Arguments = decltype(Operator::constants());
template <typename Operator>
inline constexpr bool is_forward = std::is_same_v<Arguments<Operator>, ForwardArguments>;
template <typename Operator>
using Results = std::conditional_t<is_forward<Operator>, ForwardResults, BackwardResults>;
template <typename Operator>
inline constexpr bool is_in_place = std::is_same_v<decltype(Operator::results), const std::tuple<>>;

/// One result is returned as a tensor, several as a tuple.
template <typename... Fields>
auto returned(const std::tuple<Fields...>&)
    -> std::tuple<std::conditional_t<true, Tensor, Fields>...>;
template <typename Field>
auto returned(const std::tuple<Field>&) -> Tensor;
inline auto returned(const std::tuple<>&) -> void;
template <typename Operator>
using Returned = decltype(returned(Operator::results));

template <typename Return, typename... Fields>
auto signature(const std::tuple<Fields...>&) -> Return (*)(typename ParameterOf<Fields>::type...);
template <typename Operator>
using Signature =
    std::remove_pointer_t<decltype(signature<Returned<Operator>>(Operator::arguments))>;

template <typename Operator, typename... Parameters>
Arguments<Operator> gather(const Parameters&... parameters) {
  auto arguments = Operator::constants();
  std::apply([&](auto... fields) { (store(arguments, fields, parameters), ...); },
             Operator::arguments);
  return arguments;
}

template <typename Operator>
Returned<Operator> pack([[maybe_unused]] Results<Operator>&& results) {
  if constexpr (!is_in_place<Operator>) {
    return std::apply(
        [&](auto... fields) { return Returned<Operator>{std::move(results.*fields)...}; },
        Operator::results);
  }
}

template <typename Operator>
Results<Operator> unpack(Returned<Operator>&& returned) {
  Results<Operator> results;
  if constexpr (std::is_same_v<Returned<Operator>, Tensor>) {
    results.*std::get<0>(Operator::results) = std::move(returned);
  } else {
    std::apply(
        [&](auto... fields) {
          std::apply([&](auto&... tensors) { ((results.*fields = std::move(tensors)), ...); },
                     returned);
        },
        Operator::results);
  }
  return results;
}

// ---- calls

/// The dispatcher's entry: it never changes, so it is looked up at the first use and kept.
template <typename Operator>
const c10::TypedOperatorHandle<Signature<Operator>>& handle() {
  static const auto handle =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow((std::string("fusednorm::") + Operator::name).c_str(), "")
          .template typed<Signature<Operator>>();
  return handle;
}

/// Calls the operator through the dispatcher.
template <typename Operator>
Results<Operator> call(const Arguments<Operator>& arguments) {
  return unpack<Operator>(std::apply(
      [&](auto... fields) { return handle<Operator>().call(load(arguments, fields)...); },
      Operator::arguments));
}

/// Calls the operator's kernel for the highest of `keys`.
template <typename Operator>
Results<Operator> redispatch(c10::DispatchKeySet keys, const Arguments<Operator>& arguments) {
  return unpack<Operator>(std::apply(
      [&](auto... fields) {
        return handle<Operator>().redispatch(keys, load(arguments, fields)...);
      },
      Operator::arguments));
}

// ---- the list

template <typename... Operators>
struct List {
  /// visit.operator()<Operator>() for each, in order.
  template <typename Visit>
  static void for_each(Visit visit) {
    (visit.template operator()<Operators>(), ...);
  }
};

}  // namespace fusednorm::operators
