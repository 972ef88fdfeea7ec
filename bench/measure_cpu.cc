// Measures the CPU backend against copies on the same threads.
#include <cstring>
#include <memory>
#include <random>

#include "copy.h"
#include "fusednorm/fusednorm.h"
#include "measure.h"

namespace fusednorm::bench {
namespace {

/// An array on its own pages, moved off alignment by the asked number of elements.
class Array {
 public:
  Array(std::int64_t elements, DType dtype, std::int64_t offset, float value_spread, float centre) {
    const std::size_t size = size_of(dtype), lead = static_cast<std::size_t>(offset) * size;
    bytes_ = static_cast<std::size_t>(elements) * size;
    memory_.reset(
        static_cast<std::byte*>(std::aligned_alloc(4096, (bytes_ + lead + 8191) / 4096 * 4096)));
    data_ = memory_.get() + lead;
    std::mt19937 generator(7);
    std::uniform_real_distribution<float> distribution(centre - value_spread,
                                                       centre + value_spread);
    // One random page, repeated: the time of a kernel does not depend on values.
    for (std::int64_t i = 0; i < elements; ++i) {
      if (i >= 4096) {
        std::memcpy(at(i, size), at(i - 4096, size),
                    size * static_cast<std::size_t>(std::min<std::int64_t>(4096, elements - i)));
        i += 4095;
      } else {
        put(at(i, size), distribution(generator), dtype);
      }
    }
  }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::byte* at(std::int64_t i, std::size_t size) const {
    return data_ + static_cast<std::size_t>(i) * size;
  }
  static void put(std::byte* to, float value, DType dtype) {
    const double wide = value;
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (dtype == DType::f64) std::memcpy(to, &wide, 8);
    if (dtype == DType::f32) std::memcpy(to, &value, 4);
    // Cut to the shorter format: any finite values will do here.
    const auto bf16 = static_cast<std::uint16_t>(bits >> 16);
    const auto f16 =
        static_cast<std::uint16_t>((bits >> 16 & 0x8000) | 0x3800 | (bits >> 13 & 0x3ff));
    if (dtype == DType::bf16) std::memcpy(to, &bf16, 2);
    if (dtype == DType::f16) std::memcpy(to, &f16, 2);
  }
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

std::function<void()> copy_of(const Array& from, const Array& to, int threads, bool streaming) {
  return [&from, &to, threads, streaming] {
    fusednorm_bench_copy(to.data(), from.data(), std::min(from.bytes(), to.bytes()), threads,
                         streaming);
  };
}

}  // namespace

Measurement measure_cpu(const Case& which, const Options& options) {
  cpu::Device device = cpu::query();
  if (options.threads > 0) device.threads = options.threads;
  Measurement result;
  result.threads = device.threads;
  result.bytes = minimal_bytes(which);

  const std::int64_t stride = which.row_stride == packed ? which.shape.cols : which.row_stride;
  const std::int64_t elements = which.shape.rows * stride;
  const DType statistics = compute_dtype(which.dtype);
  const auto matrix = [&] { return Array(elements, which.dtype, which.offset, 1.0f, 0.25f); };
  const auto vector = [&](std::int64_t n, DType dtype, float centre) {
    return Array(n, dtype, which.offset, 0.25f, centre);
  };
  Status status;
  std::function<void()> work;
  const Array in = matrix(), out = matrix();
  const Array gamma = vector(which.shape.cols, which.param_dtype, 1.0f);
  const Array beta = vector(which.shape.cols, which.param_dtype, 0.5f);
  std::vector<std::byte> workspace;
  std::unique_ptr<Array> dy, mean, rstd, dgamma, dbeta;

  if (which.pass == Pass::forward) {
    const auto problem = forward_problem(which);
    const auto first = cpu::plan(problem, device);
    if (!first) return result.error = first.status().message(), result;
    result.explanation = cpu::explain(*first);
    workspace.resize(first->workspace_bytes);
    work = [&, problem] {
      const auto plan = cpu::plan(problem, device);
      status = cpu::run(*plan, {in.data(), gamma.data(), beta.data(), out.data()},
                        {workspace.data(), workspace.size()});
    };
  } else {
    const auto problem = backward_problem(which);
    const auto first = cpu::plan(problem, device);
    if (!first) return result.error = first.status().message(), result;
    result.explanation = cpu::explain(*first);
    workspace.resize(first->workspace_bytes);
    dy = std::make_unique<Array>(matrix());
    mean = std::make_unique<Array>(vector(which.shape.rows, statistics, 0.25f));
    rstd = std::make_unique<Array>(vector(which.shape.rows, statistics, 1.0f));
    dgamma = std::make_unique<Array>(vector(which.shape.cols, which.param_dtype, 0.0f));
    dbeta = std::make_unique<Array>(vector(which.shape.cols, which.param_dtype, 0.0f));
    work = [&, problem] {
      const auto plan = cpu::plan(problem, device);
      BackwardBuffers buffers;
      buffers.dy = dy->data();
      buffers.x = in.data();
      buffers.gamma = gamma.data();
      buffers.mean = mean->data();
      buffers.rstd = rstd->data();
      buffers.dx = out.data();
      buffers.dgamma = dgamma->data();
      buffers.dbeta = dbeta->data();
      status = cpu::run(*plan, buffers, {workspace.data(), workspace.size()});
    };
  }
  // The best of a library copy and a streaming one, on as many threads as the work uses.
  const Timing timing =
      take_turns(options.seconds, work,
                 {copy_of(in, out, device.threads, false), copy_of(in, out, device.threads, true)});
  if (!status) return result.error = status.message(), result;
  result.seconds = timing.work;
  result.copy_seconds = timing.copy;
  result.copy_bytes = 2.0 * static_cast<double>(out.bytes());
  return result;
}

}  // namespace fusednorm::bench
