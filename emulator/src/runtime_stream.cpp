// SPDX-License-Identifier: Apache-2.0
// Streams and events. Work runs when it is submitted, or is recorded while the stream is being
// captured.
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

// A stream that waits for an event of a capture takes part in it.
cudaError_t wait_in_capture(Stream* stream, const Event& event) {
  std::lock_guard<std::mutex> lock(Runtime::get().mutex);
  if (!event.capture) {
    if (!stream || !stream->capture || !event.recorded) return device_state();
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (!stream) {
    event.capture->invalid = true;
    return cudaErrorStreamCaptureImplicit;
  }
  if (stream->capture && stream->capture != event.capture) {
    stream->capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream->capture = event.capture;
  join(stream->last, event.last);
  return device_state();
}

// A wait for a stream that is being captured breaks the capture.
cudaError_t wait_for(cudaStream_t handle) {
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(handle, error);
  if (error != cudaSuccess) return error;
  if (stream && stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (!stream)
    if (const cudaError_t unsafe = implicit_dependency(handle)) return unsafe;
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
    if (!stream)
      if (const cudaError_t implicit = implicit_dependency(handle)) return implicit;
    // A launch waits for a copy before it, whatever its attributes.
    if (type != cudaGraphNodeTypeKernel) {
      std::lock_guard<std::mutex> lock(Runtime::get().mutex);
      Runtime::get().last_launches.erase({current_device(), handle});
    }
    return action();
  }
  std::lock_guard<std::mutex> lock(Runtime::get().mutex);
  if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  auto node = std::make_shared<Node>(Node{type, std::move(action), stream->last});
  stream->last = {node.get()};
  stream->capture->graph->nodes.push_back(std::move(node));
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
  if (!stream)
    if (const cudaError_t implicit = implicit_dependency(stream_handle)) return result(implicit);
  event->capture = stream ? stream->capture : nullptr;
  event->last = stream ? stream->last : std::vector<Node*>();
  event->recorded = true;
  event->milliseconds = now_milliseconds();
  return result(device_state());
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (!(flags & cudaEventRecordExternal)) return cudaEventRecord(event, stream);
  // A node of the graph: recorded at each replay, for others to wait for.
  return result(submit(stream, cudaGraphNodeTypeEventRecord, [=] {
    Event* const found = find_event(event);
    if (!found) return cudaErrorInvalidResourceHandle;
    found->recorded = true;
    found->milliseconds = now_milliseconds();
    return cudaSuccess;
  }));
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const Event* event = find_event(handle);
  if (!event) return result(cudaErrorInvalidResourceHandle);
  if (event->capture) {
    event->capture->invalid = true;
    return result(cudaErrorCapturedEvent);
  }
  if (const cudaError_t unsafe = unsafe_call()) return result(unsafe);
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
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  const Event* event = find_event(handle);
  cudaError_t error = cudaSuccess;
  Stream* stream = find_stream(stream_handle, error);
  if (!event || error != cudaSuccess) return result(cudaErrorInvalidResourceHandle);
  if (stream && stream->capture && (flags & cudaEventWaitExternal))
    return result(submit(stream_handle, cudaGraphNodeTypeWaitEvent, device_state));
  return result(wait_in_capture(stream, *event));
}
}
