// Streams, events and graphs. Work runs when it is submitted, or is recorded while the stream is
// being captured.
#include <chrono>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

double now_milliseconds() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

cudaError_t create_stream(cudaStream_t* out, unsigned flags, int priority) {
  if (!out) return cudaErrorInvalidValue;
  if (const cudaError_t error = device_state()) return error;
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  auto* stream = new Stream();
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = priority;
  runtime.streams.insert(stream);
  *out = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

Event* find_event(cudaEvent_t event) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  auto* found = reinterpret_cast<Event*>(event);
  return runtime.events.count(found) ? found : nullptr;
}

// A wait for a stream that is being captured breaks the capture.
cudaError_t wait_for(cudaStream_t handle) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess) return error;
  if (stream && stream->capture) {
    stream->capture_invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (!stream)
    if (const cudaError_t unsafe = unsafe_call()) return unsafe;
  return device_state();
}

}  // namespace

Stream* find_stream(cudaStream_t handle, cudaError_t& error) {
  error = cudaSuccess;
  if (is_default(handle)) return nullptr;
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (runtime.streams.count(stream)) return stream;
  error = cudaErrorInvalidResourceHandle;
  return nullptr;
}

cudaError_t submit(cudaStream_t handle, cudaGraphNodeType type,
                   std::function<cudaError_t()> action) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess) return error;
  if (!stream || !stream->capture) {
    if (!stream && Runtime::get().capturing_globally > 0 && handle != cudaStreamPerThread)
      return cudaErrorStreamCaptureImplicit;
    // A launch waits for a copy before it, whatever its attributes.
    if (type != cudaGraphNodeTypeKernel) {
      std::lock_guard<std::mutex> lock(Runtime::get().mutex);
      Runtime::get().last_launches.erase({current_device(), handle});
    }
    return action();
  }
  stream->capture->nodes.push_back({type, std::move(action)});
  return cudaSuccess;
}

}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* out) {
  return result(create_stream(out, 0, 0));
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return result(create_stream(out, flags, 0));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  return result(create_stream(out, flags, priority));
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess || !stream) return result(cudaErrorInvalidResourceHandle);
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return result(wait_for(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return result(wait_for(stream));
}
cudaError_t cudaDeviceSynchronize(void) {
  if (const cudaError_t unsafe = unsafe_call()) return result(unsafe);
  return result(device_state());
}
cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  cudaError_t error = cudaSuccess;
  const Stream* stream = find_stream(handle, error);
  *flags = stream ? stream->flags : 0;
  return result(error);
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  cudaError_t error = cudaSuccess;
  const Stream* stream = find_stream(handle, error);
  *priority = stream ? stream->priority : 0;
  return result(error);
}
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  cudaError_t error = cudaSuccess;
  const Stream* stream = find_stream(handle, error);
  *device = stream ? stream->device : current_device();
  return result(error);
}
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  *id = reinterpret_cast<unsigned long long>(handle);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return result(submit(stream, cudaGraphNodeTypeHost, [=] {
    function(data);
    return cudaSuccess;
  }));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned) {
  callback(stream, device_state(), data);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  if (!out) return result(cudaErrorInvalidValue);
  if (const cudaError_t error = device_state()) return result(error);
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  auto* event = new Event();
  event->device = current_device();
  runtime.events.insert(event);
  *out = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) {
  return cudaEventCreateWithFlags(out, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  Event* event = find_event(handle);
  if (!event) return result(cudaErrorInvalidResourceHandle);
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.events.erase(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  Event* event = find_event(handle);
  cudaError_t error = cudaSuccess;
  const Stream* stream = find_stream(stream_handle, error);
  if (!event || error != cudaSuccess) return result(cudaErrorInvalidResourceHandle);
  event->capture = stream ? stream->capture : nullptr;
  event->recorded = true;
  event->milliseconds = now_milliseconds();
  return result(device_state());
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const Event* event = find_event(handle);
  if (!event) return result(cudaErrorInvalidResourceHandle);
  if (event->capture) return result(cudaErrorCapturedEvent);
  return result(device_state());
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return cudaEventSynchronize(handle);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Event *first = find_event(start), *last = find_event(end);
  if (!first || !last || !first->recorded || !last->recorded || !milliseconds)
    return result(cudaErrorInvalidResourceHandle);
  *milliseconds = static_cast<float>(last->milliseconds - first->milliseconds);
  return result(device_state());
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned) {
  const Event* event = find_event(handle);
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(stream_handle, error);
  if (!event || error != cudaSuccess) return result(cudaErrorInvalidResourceHandle);
  if (event->capture && stream && !stream->capture)
    stream->capture = event->capture;  // the stream joins the capture
  return result(device_state());
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess) return result(error);
  if (!stream) return result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) return result(cudaErrorIllegalState);
  stream->capture = new Graph();
  stream->capture_origin = true;
  stream->capture_invalid = false;
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.capturing_globally += mode != cudaStreamCaptureModeRelaxed;
  stream->flags |= mode != cudaStreamCaptureModeRelaxed ? 0x100u : 0u;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess || !stream || !stream->capture || !stream->capture_origin)
    return result(cudaErrorIllegalState);
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Graph* graph = stream->capture;
  const bool invalid = stream->capture_invalid;
  for (Stream* other : runtime.streams)
    if (other->capture == graph) other->capture = nullptr;
  for (Event* event : runtime.events)
    if (event->capture == graph) event->capture = nullptr;
  stream->capture_origin = false;
  if (stream->flags & 0x100u) --runtime.capturing_globally;
  stream->flags &= ~0x100u;
  if (invalid) {
    delete graph;
    if (out) *out = nullptr;
    return result(cudaErrorStreamCaptureInvalidated);
  }
  *out = reinterpret_cast<cudaGraph_t>(graph);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  cudaError_t error = cudaSuccess;
  const Stream* stream = find_stream(handle, error);
  *status = !stream || !stream->capture ? cudaStreamCaptureStatusNone
            : stream->capture_invalid   ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
  return result(error);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  cudaError_t error = cudaStreamIsCapturing(handle, status);
  const Stream* stream = find_stream(handle, error);
  if (id) *id = stream ? reinterpret_cast<unsigned long long>(stream->capture) : 0;
  if (graph) *graph = stream ? reinterpret_cast<cudaGraph_t>(stream->capture) : nullptr;
  if (dependencies) *dependencies = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return result(error);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = cudaStreamCaptureModeGlobal;
  return cudaSuccess;
}

// A graph keeps its nodes in the order of capture, which respects every dependency.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  if (!out || !graph) return result(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = device_state()) return result(error);
  const Graph graph = *reinterpret_cast<Graph*>(exec);
  return result(submit(stream, cudaGraphNodeTypeGraph, [graph] {
    for (const Node& node : graph.nodes)
      if (const cudaError_t error = node.run()) return error;
    return cudaSuccess;
  }));
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<Graph*>(exec);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  Graph& all = *reinterpret_cast<Graph*>(graph);
  if (nodes)
    for (size_t k = 0; k < *count && k < all.nodes.size(); ++k)
      nodes[k] = reinterpret_cast<cudaGraphNode_t>(&all.nodes[k]);
  *count = all.nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->type;
  return cudaSuccess;
}
}
