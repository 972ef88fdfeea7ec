// SPDX-License-Identifier: Apache-2.0
// Streams, events, and the graphs that captures record.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace fusednorm::emulator {

struct Node {
  cudaGraphNodeType type;
  std::function<cudaError_t()> run;
  std::vector<Node*> after;  // nodes of the same graph that must have run
};

// Nodes stand in the order in which they were recorded, which respects every dependency. A graph
// that was instantiated shares them.
struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::shared_ptr<void>> user_objects;
};

// One capture, shared by the streams that take part and the events recorded in them.
struct Capture {
  unsigned long long id = 0;
  Graph* graph = nullptr;
  bool owns_graph = true;  // false: cudaStreamBeginCaptureToGraph
  bool invalid = false;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  // that began it
};

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::shared_ptr<Capture> capture;
  bool capture_origin = false;
  std::vector<Node*> last;  // the nodes that the next captured one waits for
};

struct Event {
  bool recorded = false;
  double milliseconds = 0;
  int device = 0;
  std::shared_ptr<Capture> capture;
  std::vector<Node*> last;  // of the captured stream when it was recorded
};

// Adds to `nodes` those of `more` that are not there.
void join(std::vector<Node*>& nodes, const std::vector<Node*>& more);
// Runs the nodes: in the order of capture if the seed is 0, else in another that respects the
// dependencies.
cudaError_t run_graph(const Graph& graph, uint64_t seed);

}  // namespace fusednorm::emulator
