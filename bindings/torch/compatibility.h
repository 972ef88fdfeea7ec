// SPDX-License-Identifier: Apache-2.0
// What differs between PyTorch 2.6 and 2.15, and the only place that knows: types are asked, not
// versions.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>

namespace fusednorm::operators {

/// How an Edge holds its node: std::shared_ptr up to PyTorch 2.12, c10::intrusive_ptr from 2.13.
using NodePointer = decltype(torch::autograd::Edge::function);

template <typename Pointer>
struct NodeHolder;

template <>
struct NodeHolder<c10::intrusive_ptr<torch::autograd::Node>> {
  template <typename Derived>
  static auto make() {
    return c10::make_intrusive<Derived>();
  }
};

template <>
struct NodeHolder<std::shared_ptr<torch::autograd::Node>> {
  template <typename Derived>
  static auto make() {
    // deleteNode, which only these releases have, frees long graphs without recursion. It is found
    // by the type of its argument, so that newer releases never look for it.
    return std::shared_ptr<Derived>(new Derived, [](Derived* node) { deleteNode(node); });
  }
};

template <typename Derived>
auto new_node() {
  return NodeHolder<NodePointer>::make<Derived>();
}

}  // namespace fusednorm::operators
