// SPDX-License-Identifier: Apache-2.0
// Graphs: what a capture recorded, made executable, launched and looked into.
#include <algorithm>
#include <random>
#include <set>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

struct UserObject {
  std::shared_ptr<void> held;  // its deleter is the caller's
  unsigned references = 0;     // of the caller; graphs share `held`
};

cudaError_t release(UserObject* object, unsigned count) {
  if (!object || count == 0 || count > object->references) return cudaErrorInvalidValue;
  object->references -= count;
  if (object->references == 0) delete object;
  return cudaSuccess;
}

Graph* of(cudaGraph_t graph) {
  return reinterpret_cast<Graph*>(graph);
}

}  // namespace

cudaError_t run_graph(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<const Node*> left;
  for (const auto& node : graph.nodes) left.push_back(node.get());
  std::set<const Node*> waiting(left.begin(), left.end());
  while (!left.empty()) {
    const auto is_ready = [&](const Node* node) {
      return std::none_of(node->after.begin(), node->after.end(),
                          [&](const Node* before) { return waiting.count(before) != 0; });
    };
    // The first is always ready: no node waits for one recorded after it.
    std::vector<size_t> ready{0};
    for (size_t k = 1; seed && k < left.size(); ++k)
      if (is_ready(left[k])) ready.push_back(k);
    const size_t chosen = ready[seed ? random() % ready.size() : 0];
    if (const cudaError_t error = left[chosen]->run()) return error;
    waiting.erase(left[chosen]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return cudaSuccess;
}

}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* out, unsigned) {
  if (!out) return result(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaGraph_t>(new Graph());
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  if (!out || !graph) return result(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaGraphExec_t>(new Graph(*of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = device_state()) return result(error);
  if (!exec) return result(cudaErrorInvalidValue);
  const Graph graph = *reinterpret_cast<Graph*>(exec);
  return result(submit(stream, cudaGraphNodeTypeGraph,
                       [graph] { return run_graph(graph, Runtime::get().seed); }));
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<Graph*>(exec);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (!graph || !count) return result(cudaErrorInvalidValue);
  const auto& all = of(graph)->nodes;
  if (nodes)
    for (size_t k = 0; k < *count && k < all.size(); ++k)
      nodes[k] = reinterpret_cast<cudaGraphNode_t>(all[k].get());
  *count = all.size();
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->type;
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData* edges, size_t* count) {
  if (!node || !count) return result(cudaErrorInvalidValue);
  const std::vector<Node*>& after = reinterpret_cast<Node*>(node)->after;
  for (size_t k = 0; k < *count && k < after.size(); ++k) {
    if (dependencies) dependencies[k] = reinterpret_cast<cudaGraphNode_t>(after[k]);
    if (edges) edges[k] = {};
  }
  *count = after.size();
  return cudaSuccess;
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* out, void* pointer, cudaHostFn_t destroy,
                                 unsigned references, unsigned) {
  if (!out || !destroy || references == 0) return result(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaUserObject_t>(
      new UserObject{std::shared_ptr<void>(pointer, destroy), references});
  return cudaSuccess;
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  if (!object || count == 0) return result(cudaErrorInvalidValue);
  reinterpret_cast<UserObject*>(object)->references += count;
  return cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return result(release(reinterpret_cast<UserObject*>(object), count));
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  auto* user = reinterpret_cast<UserObject*>(object);
  if (!graph || !user || count == 0) return result(cudaErrorInvalidValue);
  for (unsigned k = 0; k < count; ++k) of(graph)->user_objects.push_back(user->held);
  return flags & cudaGraphUserObjectMove ? result(release(user, count)) : cudaSuccess;
}
}
