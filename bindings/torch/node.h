// SPDX-License-Identifier: Apache-2.0
// Autograd nodes: how this PyTorch release holds them, their edges and what they save.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>

#include "arguments.h"

namespace fusednorm::operators::autograd {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// std::shared_ptr up to PyTorch 2.12, c10::intrusive_ptr from 2.13.
using NodePointer = decltype(torch::autograd::Edge::function);

template <typename Pointer>
struct NodeHolder;
template <>
struct NodeHolder<c10::intrusive_ptr<Node>> {
  template <typename Derived>
  static auto make() {
    return c10::make_intrusive<Derived>();
  }
};
template <>
struct NodeHolder<std::shared_ptr<Node>> {
  template <typename Derived>
  static auto make() {
    // deleteNode, which only these releases have, frees long graphs without recursion.
    return std::shared_ptr<Derived>(new Derived, [](Derived* node) { deleteNode(node); });
  }
};

/// A node whose gradients go to `inputs`, in that order; null inputs get none.
template <typename Derived, size_t count>
auto make_node(const std::array<const Tensor*, count>& inputs) {
  auto node = NodeHolder<NodePointer>::make<Derived>();
  torch::autograd::edge_list edges;
  edges.reserve(count);
  for (const auto* input : inputs) {
    edges.push_back(input == nullptr ? torch::autograd::Edge()
                                     : torch::autograd::impl::gradient_edge(*input));
  }
  node->set_next_edges(std::move(edges));
  return node;
}

inline SavedVariable save_input(const Tensor* tensor) {
  return tensor == nullptr ? SavedVariable() : SavedVariable(*tensor, /*is_output=*/false);
}

}  // namespace fusednorm::operators::autograd
