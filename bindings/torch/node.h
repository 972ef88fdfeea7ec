// SPDX-License-Identifier: Apache-2.0
// Autograd nodes: their edges and what they save.
#pragma once

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "arguments.h"
#include "compatibility.h"

namespace fusednorm::operators::autograd {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// A node whose gradients go to `inputs`, in that order; null inputs get none.
template <typename Derived, size_t count>
auto make_node(const std::array<const Tensor*, count>& inputs) {
  auto node = new_node<Derived>();
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
