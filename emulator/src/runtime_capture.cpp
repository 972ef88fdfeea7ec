// SPDX-License-Identifier: Apache-2.0
// Stream capture: which streams record into which graph, and what a capture forbids.
#include <algorithm>
#include <set>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

// The capture's own mode and that of the calling thread decide, as
// cudaThreadExchangeStreamCaptureMode says: PyTorch's allocator sets its thread to relaxed for a
// cudaMalloc.
bool forbids(const Capture& capture) {
  if (thread_mode == cudaStreamCaptureModeRelaxed || capture.mode == cudaStreamCaptureModeRelaxed)
    return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return thread_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
}

cudaError_t begin(cudaStream_t handle, cudaStreamCaptureMode mode, Graph* graph,
                  std::vector<Node*> last) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess) return error;
  if (!stream) return cudaErrorStreamCaptureUnsupported;
  if (mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  if (stream->capture) return cudaErrorIllegalState;
  static unsigned long long captures = 0;
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures;
  capture->owns_graph = graph == nullptr;
  capture->graph = graph ? graph : new Graph();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  stream->capture = capture;
  stream->capture_origin = true;
  stream->last = std::move(last);
  runtime.captures.push_back(std::move(capture));
  return cudaSuccess;
}

// Whether everything that other streams recorded comes before the end of the stream that began.
bool joined(const Runtime& runtime, const Stream& origin) {
  std::set<const Node*> before;
  std::vector<const Node*> left(origin.last.begin(), origin.last.end());
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    if (before.insert(node).second) left.insert(left.end(), node->after.begin(), node->after.end());
  }
  for (const Stream* stream : runtime.streams)
    if (stream->capture == origin.capture)
      for (const Node* node : stream->last)
        if (!before.count(node)) return false;
  return true;
}

// Every stream that took part leaves the capture.
void finish(Runtime& runtime, const std::shared_ptr<Capture>& capture) {
  for (Stream* stream : runtime.streams)
    if (stream->capture == capture) {
      stream->capture = nullptr;
      stream->last.clear();
    }
  for (Event* event : runtime.events)
    if (event->capture == capture) {
      event->capture = nullptr;
      event->last.clear();
    }
  auto& all = runtime.captures;
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
}

}  // namespace

void join(std::vector<Node*>& nodes, const std::vector<Node*>& more) {
  for (Node* node : more)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
}

cudaError_t unsafe_call() {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  cudaError_t error = cudaSuccess;
  for (const auto& capture : runtime.captures)
    if (forbids(*capture)) {
      capture->invalid = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  return error;
}

cudaError_t implicit_dependency(cudaStream_t default_stream) {
  if (default_stream == cudaStreamPerThread) return cudaSuccess;
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  for (Stream* stream : runtime.streams)
    if (stream->capture && !(stream->flags & cudaStreamNonBlocking) &&
        stream->device == current_device()) {
      stream->capture->invalid = true;
      return cudaErrorStreamCaptureImplicit;
    }
  return cudaSuccess;
}

}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return result(begin(handle, mode, nullptr, {}));
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t handle, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData*, size_t count,
                                          cudaStreamCaptureMode mode) {
  if (!graph || (count && !dependencies)) return result(cudaErrorInvalidValue);
  std::vector<Node*> last;
  for (size_t k = 0; k < count; ++k) last.push_back(reinterpret_cast<Node*>(dependencies[k]));
  return result(begin(handle, mode, reinterpret_cast<Graph*>(graph), std::move(last)));
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess || !stream || !stream->capture || !out)
    return result(cudaErrorIllegalState);
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  *out = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!stream->capture_origin) return result(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id())
    return result(cudaErrorStreamCaptureWrongThread);
  error = capture->invalid            ? cudaErrorStreamCaptureInvalidated
          : !joined(runtime, *stream) ? cudaErrorStreamCaptureUnjoined
                                      : cudaSuccess;
  stream->capture_origin = false;
  finish(runtime, capture);
  if (error == cudaSuccess)
    *out = reinterpret_cast<cudaGraph_t>(capture->graph);
  else if (capture->owns_graph)
    delete capture->graph;
  return result(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  cudaError_t error = cudaSuccess;
  const Stream* stream = find_stream(handle, error);
  *status = !stream || !stream->capture ? cudaStreamCaptureStatusNone
            : stream->capture->invalid  ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
  if (error == cudaSuccess && !stream) error = implicit_dependency(handle);
  return result(error);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  if (const cudaError_t error = cudaStreamIsCapturing(handle, status)) return error;
  cudaError_t error = cudaSuccess;
  const Stream* stream = find_stream(handle, error);
  const Capture* capture = stream ? stream->capture.get() : nullptr;
  if (id) *id = capture ? capture->id : 0;
  if (graph) *graph = capture ? reinterpret_cast<cudaGraph_t>(capture->graph) : nullptr;
  if (dependencies)
    *dependencies =
        capture ? reinterpret_cast<const cudaGraphNode_t*>(stream->last.data()) : nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = capture ? stream->last.size() : 0;
  return result(error);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned flags) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess) return result(error);
  if (!stream || !stream->capture) return result(cudaErrorIllegalState);
  if (count && !dependencies) return result(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> lock(Runtime::get().mutex);
  if (flags & cudaStreamSetCaptureDependencies) stream->last.clear();
  for (size_t k = 0; k < count; ++k) join(stream->last, {reinterpret_cast<Node*>(dependencies[k])});
  return cudaSuccess;
}
#if CUDART_VERSION < 13000
// What cuda_runtime_api.h of CUDA 12 makes of the plain name.
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, size_t* count) {
  return cudaStreamGetCaptureInfo_v3(handle, status, id, graph, dependencies, nullptr, count);
}
#endif
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (!mode || *mode > cudaStreamCaptureModeRelaxed) return result(cudaErrorInvalidValue);
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
}
