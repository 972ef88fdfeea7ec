// SPDX-License-Identifier: Apache-2.0
// Measures the CPU backend against copies on the same threads.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>

#include "copy.h"
#include "fusednorm/fusednorm.h"
#include "measure.h"
#include "problems/minimal_bytes.h"

namespace fusednorm::bench {
namespace {

using problems::Beta;
using problems::Gamma;
using problems::Problem;

/// An array on its own pages, `offset` elements off their boundary.
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
  /// Null for an array that the problem does not have.
  std::byte* data_if(bool exists) const { return exists ? data_ : nullptr; }
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

/// The arrays of a problem; those that it does not have are empty.
struct Arrays {
  Array in, out, dy;  ///< x, the stored sum or, in a backward pass from y, y; y or dx
  Array residual, sum, ds, dresidual;
  Array gamma, beta, mean, rstd, dgamma, dbeta;

  explicit Arrays(const Problem& p)
      : in(p.is_forward()
               ? rows(p, problems::kX, p.x_dtype, true)
               : rows(p, problems::kSource, p.from_y() ? p.y_dtype : p.row_dtype(), true)),
        out(p.is_forward() ? rows(p, problems::kY, p.y_dtype, true)
                           : rows(p, problems::kDx, p.x_dtype, true)),
        dy(rows(p, problems::kDy, p.y_dtype, !p.is_forward() && p.has_dy)),
        residual(rows(p, problems::kResidual, p.row_dtype(), p.is_forward() && p.has_residual)),
        sum(rows(p, problems::kSum, p.row_dtype(), p.is_forward() && p.has_residual)),
        ds(rows(p, problems::kDs, p.row_dtype(), !p.is_forward() && p.has_ds)),
        dresidual(rows(p, problems::kDresidual, p.row_dtype(), !p.is_forward() && p.out[3])),
        gamma(table(p, true, 1.0f - static_cast<float>(p.gamma_offset))),
        beta(table(p, true, 0.5f)),
        mean(vector(p, p.rows, compute_dtype(p.x_dtype), 0.25f)),
        rstd(vector(p, p.rows, compute_dtype(p.x_dtype), 1.0f)),
        dgamma(table(p, !p.is_forward(), 0.0f)),
        dbeta(table(p, !p.is_forward(), 0.0f)) {}

  ForwardBuffers forward(const Problem& p) const {
    ForwardBuffers buffers;
    buffers.x = in.data();
    buffers.gamma = gamma.data_if(p.gamma != Gamma::none);
    buffers.beta = beta.data_if(p.beta != Beta::none);
    buffers.y = out.data();
    buffers.mean = mean.data_if(p.out[0]);
    buffers.rstd = rstd.data_if(p.out[1]);
    buffers.residual = residual.data_if(p.has_residual);
    buffers.sum = sum.data_if(p.has_residual);
    return buffers;
  }
  BackwardBuffers backward(const Problem& p) const {
    BackwardBuffers buffers;
    buffers.dy = dy.data_if(p.has_dy);
    buffers.x = in.data_if(!p.from_y());
    buffers.y = in.data_if(p.from_y());
    buffers.gamma = gamma.data_if(p.gamma != Gamma::none);
    buffers.beta = beta.data_if(p.beta != Beta::none && p.from_y());
    buffers.mean = mean.data_if(!p.from_y());
    buffers.rstd = rstd.data();
    buffers.dx = out.data_if(p.out[0]);
    buffers.dgamma = dgamma.data_if(p.out[1]);
    buffers.dbeta = dbeta.data_if(p.out[2]);
    buffers.ds = ds.data_if(p.has_ds);
    buffers.dresidual = dresidual.data_if(p.out[3]);
    return buffers;
  }

 private:
  static Array rows(const Problem& p, int index, DType dtype, bool exists) {
    return Array(exists ? extent_of(p, index) : 0, dtype, p.offset[index], 1.0f, 0.25f);
  }
  static Array vector(const Problem& p, std::int64_t elements, DType dtype, float centre) {
    return Array(elements, dtype, p.offset[0], 0.25f, centre);
  }
  static Array table(const Problem& p, bool exists, float centre) {
    return vector(p, exists ? p.param_groups * p.cols : 0, p.param_dtype, centre);
  }
};

double time_of(const std::function<void()>& action, int repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

cpu::Device device_of(const Options& options) {
  cpu::Device device = cpu::query();
  if (options.threads > 0) device.threads = options.threads;
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    if (set.name() == options.instruction_set) device.instruction_set = set;
  }
  return device;
}

/// A problem that is ready to run: its arrays and workspace, and whether it can.
class Ready {
 public:
  Ready(const Problem& problem, const cpu::Device& device) : device_(device), arrays_(problem) {
    if (problem.is_forward())
      prepare(forward_problem(problem), arrays_.forward(problem));
    else
      prepare(backward_problem(problem), arrays_.backward(problem));
  }
  Ready(const Ready&) = delete;

  const Status& status() const { return status_; }
  std::size_t copied_bytes() const { return std::min(arrays_.in.bytes(), arrays_.out.bytes()); }

  Contest contest() const {
    // As often as takes a millisecond, so that the clock and a cold start do not count.
    const double once = std::max(time_of(work_, 1), 1e-7);
    const int repeats = static_cast<int>(std::clamp(1e-3 / once, 1.0, 1e5));
    return {work_, {copy(false), copy(true)}, [repeats](const auto& action) {
              return time_of(action, repeats);
            }};
  }

 private:
  /// A call plans and runs, as a caller without a plan at hand does.
  template <typename Asked, typename Buffers>
  void prepare(const Asked& asked, const Buffers& buffers) {
    const auto first = cpu::plan(asked, device_);
    status_ = first.status();
    if (!first) return;
    workspace_.resize(first->workspace_bytes);
    work_ = [this, asked, buffers] {
      const auto plan = cpu::plan(asked, device_);
      status_ = cpu::run(*plan, buffers, {workspace_.data(), workspace_.size()});
    };
    work_();
  }
  std::function<void()> copy(bool streaming) const {
    return [this, streaming] {
      fusednorm_bench_copy(arrays_.out.data(), arrays_.in.data(), copied_bytes(), device_.threads,
                           streaming);
    };
  }

  cpu::Device device_;
  Arrays arrays_;
  std::vector<std::byte> workspace_;
  Status status_;
  std::function<void()> work_;
};

}  // namespace

std::vector<Measurement> measure_cpu(const std::vector<Problem>& problems, const Options& options) {
  const cpu::Device device = device_of(options);
  std::vector<std::unique_ptr<Ready>> ready;
  std::vector<std::unique_ptr<Contest>> contests;
  std::vector<Contest*> turns;
  for (const Problem& problem : problems) {
    ready.push_back(std::make_unique<Ready>(problem, device));
    contests.push_back(nullptr);
    if (!ready.back()->status()) continue;
    contests.back() = std::make_unique<Contest>(ready.back()->contest());
    turns.push_back(contests.back().get());
  }
  run_in_turns(options.seconds, turns);
  std::vector<Measurement> results(problems.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    results[i].threads = device.threads;
    results[i].minimal_bytes = static_cast<double>(minimal_bytes(problems[i]).total());
    results[i].error = ready[i]->status().message();
    if (!ready[i]->status()) continue;
    contests[i]->summarise(&results[i]);
    results[i].copy_bytes = 2.0 * static_cast<double>(ready[i]->copied_bytes());
  }
  return results;
}

}  // namespace fusednorm::bench
