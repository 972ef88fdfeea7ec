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
// A field of tensor type is `const Tensor&` in the signature, optional(field) `Tensor?`, and any
// other field has its own type. The dispatcher compares the signature with the schema when the
// library is loaded.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <tuple>
#include <type_traits>

#include "arguments.h"

namespace fusednorm::operators {

// ---- one field: its type in a signature, its way into the arguments struct and out of it

template <typename Struct>
struct OptionalField {
  const Tensor* Struct::*member;
};
template <typename Struct>
constexpr OptionalField<Struct> optional(const Tensor* Struct::*member) {
  return {member};
}

template <typename Struct>
void store(Struct& arguments, const Tensor* Struct::*field, const Tensor& value) {
  arguments.*field = &value;
}
template <typename Struct>
void store(Struct& arguments, OptionalField<Struct> field, const Optional& value) {
  if (value.has_value() && value->defined()) arguments.*field.member = &*value;
}
template <typename Struct, typename Value>
void store(Struct& arguments, Value Struct::*field, const Value& value) {
  arguments.*field = value;
}

template <typename Struct>
const Tensor& load(const Struct& arguments, const Tensor* Struct::*field) {
  return *(arguments.*field);
}
template <typename Struct>
Optional load(const Struct& arguments, OptionalField<Struct> field) {
  const auto* tensor = arguments.*field.member;
  return tensor == nullptr ? std::nullopt : Optional(*tensor);
}
template <typename Struct, typename Value>
Value load(const Struct& arguments, Value Struct::*field) {
  return arguments.*field;
}

template <typename Field>
struct ParameterOf;
template <typename Struct>
struct ParameterOf<const Tensor * Struct::*> {
  using type = const Tensor&;
};
template <typename Struct>
struct ParameterOf<OptionalField<Struct>> {
  using type = const Optional&;
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

/// One result is returned as a tensor, several as a tuple.
template <typename... Fields>
auto returned(const std::tuple<Fields...>&)
    -> std::tuple<std::conditional_t<true, Tensor, Fields>...>;
template <typename Field>
auto returned(const std::tuple<Field>&) -> Tensor;
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
Returned<Operator> pack(Results<Operator>&& results) {
  return std::apply(
      [&](auto... fields) { return Returned<Operator>{std::move(results.*fields)...}; },
      Operator::results);
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
