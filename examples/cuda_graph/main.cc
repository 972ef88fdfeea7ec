// SPDX-License-Identifier: Apache-2.0
// LayerNorm on CUDA without a framework: two layers at once on two streams, then forward and
// backward captured in a graph and replayed on new data. run() only launches, so nothing special is
// done for either. Runs on a GPU, and on the emulated device
// (LD_LIBRARY_PATH=build/cuda/emulator/lib).
#include <cuda_runtime_api.h>
#include <fusednorm/cuda.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

namespace cuda = fusednorm::cuda;
constexpr std::int64_t rows = 40, cols = 320;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

void check(const fusednorm::Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

/// Device memory of `count` floats (or bytes of a workspace), freed at the end.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    CHECK(cudaMalloc(&data_, (count > 0 ? count : 1) * sizeof(T)));
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { (void)cudaFree(data_); }
  T* get() const { return static_cast<T*>(data_); }
  std::size_t count() const { return count_; }
  void copy_from(const std::vector<T>& values, cudaStream_t stream) const {
    CHECK(
        cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream));
  }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    CHECK(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_;
};

/// One layer's arrays and plans.
struct Layer {
  cuda::ForwardPlan forward_plan;
  cuda::BackwardPlan backward_plan;
  DeviceArray<float> x{rows * cols}, gamma{cols}, beta{cols}, y{rows * cols}, mean{rows},
      rstd{rows};
  DeviceArray<float> dy{rows * cols}, dx{rows * cols}, dgamma{cols}, dbeta{cols};
  DeviceArray<std::byte> workspace;

  Layer(const cuda::ForwardPlan& forward, const cuda::BackwardPlan& backward)
      : forward_plan(forward),
        backward_plan(backward),
        workspace(std::max(forward.workspace_bytes, backward.workspace_bytes)) {}

  void launch(cudaStream_t stream) const {
    fusednorm::ForwardBuffers in;
    in.x = x.get();
    in.gamma = gamma.get();
    in.beta = beta.get();
    in.y = y.get();
    in.mean = mean.get();
    in.rstd = rstd.get();
    const fusednorm::Workspace lent{workspace.get(), workspace.count()};
    check(cuda::run(forward_plan, in, lent, stream));
    fusednorm::BackwardBuffers back;
    back.dy = dy.get();
    back.x = x.get();
    back.gamma = gamma.get();
    back.mean = mean.get();
    back.rstd = rstd.get();
    back.dx = dx.get();
    back.dgamma = dgamma.get();
    back.dbeta = dbeta.get();
    check(cuda::run(backward_plan, back, lent, stream));  // after forward, on the same stream
  }
};

std::vector<float> waves(float frequency) {
  std::vector<float> values(rows * cols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(frequency * static_cast<float>(i));
  }
  return values;
}

/// y of row 0 by the formula.
bool right(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0, squares = 0;
  for (std::int64_t c = 0; c < cols; ++c) sum += x[c];
  for (std::int64_t c = 0; c < cols; ++c) squares += (x[c] - sum / cols) * (x[c] - sum / cols);
  const double rstd = 1 / std::sqrt(squares / cols + 1e-5);
  for (std::int64_t c = 0; c < cols; ++c) {
    if (std::fabs((x[c] - sum / cols) * rstd - y[c]) > 1e-4) return false;
  }
  return true;
}

}  // namespace

int main() {
  const auto device = cuda::query(0);
  check(device.status());
  fusednorm::ForwardProblem forward;
  forward.rows = rows;
  forward.cols = cols;
  forward.save_mean = forward.save_rstd = true;
  fusednorm::BackwardProblem backward;
  backward.rows = rows;
  backward.cols = cols;
  const auto forward_plan = cuda::plan(forward, *device);
  check(forward_plan.status());
  const auto backward_plan = cuda::plan(backward, *device);
  check(backward_plan.status());
  std::printf("%s\n%s\n", cuda::explain(*forward_plan).c_str(),
              cuda::explain(*backward_plan).c_str());

  // Two layers on two streams: a plan is a value, both use the same.
  Layer one(*forward_plan, *backward_plan), two(*forward_plan, *backward_plan);
  const std::vector<float> ones(cols, 1.0f), zeros(cols, 0.0f), x = waves(0.37f), dy = waves(0.11f);
  cudaStream_t streams[2];
  for (int k = 0; k < 2; ++k) {
    CHECK(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
    const Layer& layer = k == 0 ? one : two;
    layer.gamma.copy_from(ones, streams[k]);
    layer.beta.copy_from(zeros, streams[k]);
    layer.x.copy_from(x, streams[k]);
    layer.dy.copy_from(dy, streams[k]);
    layer.launch(streams[k]);
  }
  for (cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
  const auto y = one.y.values(), dx = one.dx.values(), dgamma = one.dgamma.values();
  if (!right(x, y)) return std::puts("y is not the formula's"), 1;
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  if (!same(dx, two.dx.values()) || !same(dgamma, two.dgamma.values())) {
    return std::puts("two streams gave different bits"), 1;
  }

  // The same step as a graph, replayed after x has changed and changed back.
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
  one.launch(streams[0]);
  CHECK(cudaStreamEndCapture(streams[0], &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (const auto& data : {waves(0.53f), x}) {
    one.x.copy_from(data, streams[0]);
    CHECK(cudaGraphLaunch(executable, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    if (!right(data, one.y.values())) return std::puts("a replay gave a wrong y"), 1;
  }
  if (!same(y, one.y.values()) || !same(dx, one.dx.values())) {
    return std::puts("a replay gave different bits"), 1;
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  std::puts("two streams and two replays: the same bits, and the formula's");
  return 0;
}
