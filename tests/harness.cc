// Layout of memory, execution, comparison.
#include "harness.h"

#include <cstdlib>
#include <sstream>
#include <utility>

#include "reference/element.h"
#include "tolerances.h"

namespace fusednorm::testing {
namespace {

std::int64_t stride_or_cols(const Problem& problem, int array) {
  return problem.stride[array] != packed ? problem.stride[array] : problem.cols;
}

/// Elements from the first to the last of a strided array: no padding after the last row.
std::int64_t extent(std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return rows > 0 && cols > 0 ? (rows - 1) * stride + cols : 0;
}

Place allocate_rows(Memory& memory, const Problem& problem, DType dtype, int array) {
  return memory.allocate(dtype, extent(problem.rows, problem.cols, stride_or_cols(problem, array)),
                         problem.offset[array]);
}

void fill(Memory& memory, Place place, DType dtype, std::int64_t rows, std::int64_t cols,
          std::int64_t stride, const std::vector<double>& values) {
  std::byte* array = memory.at(place);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      reference::store(dtype, array, row * stride + col, values[row * cols + col]);
    }
  }
}

/// A contiguous array; absent when there are no values to put in it although elements are due.
Place vector_of(Memory& memory, const Problem& problem, DType dtype,
                const std::vector<double>& values) {
  const std::int64_t size = static_cast<std::int64_t>(values.size());
  const Place place = memory.allocate(dtype, size, problem.offset[0]);
  fill(memory, place, dtype, 1, size, size, values);
  return place;
}

void lay_out_forward(Layout& layout, const Operands& in) {
  const Problem& problem = layout.problem;
  Memory& memory = layout.memory;
  ForwardPlaces& places = layout.forward;
  const auto [rows, cols] = std::pair(problem.rows, problem.cols);
  const DType stats = compute_dtype(problem.x_dtype);
  const std::int64_t x_stride = stride_or_cols(problem, 0), y_stride = stride_or_cols(problem, 1);
  places.x = allocate_rows(memory, problem, problem.x_dtype, 0);
  fill(memory, places.x, problem.x_dtype, rows, cols, x_stride, in.x);
  places.y = problem.in_place == InPlace::y_over_x
                 ? places.x
                 : allocate_rows(memory, problem, problem.y_dtype, 1);
  if (problem.gamma != Gamma::none) {
    places.gamma = vector_of(memory, problem, problem.param_dtype, in.gamma);
  }
  if (problem.beta != Beta::none) {
    places.beta = vector_of(memory, problem, problem.param_dtype, in.beta);
  }
  layout.outputs.push_back({"y", problem.y_dtype, places.y, rows, cols, y_stride});
  if (problem.out[0]) {
    places.mean = memory.allocate(stats, rows, problem.offset[0]);
    layout.outputs.push_back({"mean", stats, places.mean, 1, rows, rows});
  }
  if (problem.out[1]) {
    places.rstd = memory.allocate(stats, rows, problem.offset[0]);
    layout.outputs.push_back({"rstd", stats, places.rstd, 1, rows, rows});
  }
}

void lay_out_backward(Layout& layout, const Operands& in) {
  const Problem& problem = layout.problem;
  Memory& memory = layout.memory;
  BackwardPlaces& places = layout.backward;
  const auto [rows, cols] = std::pair(problem.rows, problem.cols);
  const DType stats = compute_dtype(problem.x_dtype);
  const DType source = problem.from_y() ? problem.y_dtype : problem.x_dtype;
  places.dy = allocate_rows(memory, problem, problem.y_dtype, 0);
  fill(memory, places.dy, problem.y_dtype, rows, cols, stride_or_cols(problem, 0), in.dy);
  places.source = allocate_rows(memory, problem, source, 1);
  fill(memory, places.source, source, rows, cols, stride_or_cols(problem, 1),
       problem.from_y() ? in.y : in.x);
  if (problem.gamma != Gamma::none) {
    places.gamma = vector_of(memory, problem, problem.param_dtype, in.gamma);
  }
  if (problem.from_y() && problem.beta != Beta::none) {
    places.beta = vector_of(memory, problem, problem.param_dtype, in.beta);
  }
  if (!problem.from_y()) {
    places.mean = vector_of(memory, problem, stats, in.mean);
  }
  places.rstd = vector_of(memory, problem, stats, in.rstd);
  if (problem.out[0]) {
    places.dx = problem.in_place == InPlace::dx_over_dy ? places.dy
                : problem.in_place == InPlace::dx_over_source
                    ? places.source
                    : allocate_rows(memory, problem, problem.x_dtype, 2);
    layout.outputs.push_back(
        {"dx", problem.x_dtype, places.dx, rows, cols, stride_or_cols(problem, 2)});
  }
  if (problem.out[1]) {
    places.dgamma = memory.allocate(problem.param_dtype, cols, problem.offset[0]);
    layout.outputs.push_back({"dgamma", problem.param_dtype, places.dgamma, 1, cols, cols});
  }
  if (problem.out[2]) {
    places.dbeta = memory.allocate(problem.param_dtype, cols, problem.offset[0]);
    layout.outputs.push_back({"dbeta", problem.param_dtype, places.dbeta, 1, cols, cols});
  }
}

const OutputArray& find_output(const Layout& layout, const std::string& name) {
  for (const OutputArray& output : layout.outputs) {
    if (output.name == name) {
      return output;
    }
  }
  std::abort();  // the caller asked for an output that the problem does not have
}

/// Empty, or the first element that does not agree and how many do not.
std::string disagreement(const Layout& layout, const Expected& expected) {
  const OutputArray& output = find_output(layout, expected.name);
  const std::byte* array = layout.memory.at(output.place);
  std::int64_t wrong = 0;
  std::ostringstream report;
  report.precision(17);
  for (std::int64_t row = 0; row < output.rows; ++row) {
    for (std::int64_t col = 0; col < output.cols; ++col) {
      const std::int64_t index = row * output.cols + col;
      const double got = reference::load(output.dtype, array, row * output.stride + col);
      if (agrees(output.dtype, got, expected.values[index], expected.errors[index])) {
        continue;
      }
      if (++wrong == 1) {
        report << output.name << "[" << row << ", " << col << "] is " << got << ", expected "
               << expected.values[index] << " +- " << expected.errors[index] << " rounded to "
               << name_of(output.dtype);
      }
    }
  }
  if (wrong == 0) {
    return {};
  }
  report << "; " << wrong << " of " << output.rows * output.cols << " elements wrong\n";
  return report.str();
}

}  // namespace

Layout::Layout(const Problem& the_problem, const Operands& operands) : problem(the_problem) {
  problem.is_forward() ? lay_out_forward(*this, operands) : lay_out_backward(*this, operands);
}

Status run(Backend& backend, Layout& layout) {
  return layout.problem.is_forward()
             ? backend.forward(forward_problem(layout.problem), layout.forward, layout.memory)
             : backend.backward(backward_problem(layout.problem), layout.backward, layout.memory);
}

std::vector<std::byte> output_bytes(const Layout& layout, const std::string& name) {
  const OutputArray& output = find_output(layout, name);
  const std::size_t element = size_of(output.dtype);
  const std::byte* array = layout.memory.at(output.place);
  std::vector<std::byte> bytes;
  for (std::int64_t row = 0; row < output.rows; ++row) {
    const std::byte* begin = array + static_cast<std::size_t>(row * output.stride) * element;
    bytes.insert(bytes.end(), begin, begin + static_cast<std::size_t>(output.cols) * element);
  }
  return bytes;
}

std::string stray_write(const Memory& before, const Memory& after,
                        const std::vector<OutputArray>& outputs) {
  Memory allowed = before;
  for (const OutputArray& output : outputs) {
    const std::size_t element = size_of(output.dtype);
    for (std::int64_t row = 0; row < output.rows; ++row) {
      const std::size_t at = static_cast<std::size_t>(row * output.stride) * element;
      std::memcpy(allowed.at(output.place) + at, after.at(output.place) + at,
                  static_cast<std::size_t>(output.cols) * element);
    }
  }
  for (std::size_t index = 0; index < after.allocations.size(); ++index) {
    const Allocation& allocation = after.allocations[index];
    const std::byte* expected = allowed.allocations[index].data();
    if (std::memcmp(allocation.data(), expected, allocation.size()) == 0) {
      continue;
    }
    std::size_t byte = 0;
    while (allocation.data()[byte] == expected[byte]) {
      ++byte;
    }
    std::ostringstream report;
    report << "wrote outside its outputs: byte "
           << static_cast<std::int64_t>(byte) - static_cast<std::int64_t>(Allocation::guard)
           << " of allocation " << index << " (of " << allocation.payload() << " bytes) changed\n";
    return report.str();
  }
  return {};
}

Trial::Trial(const Problem& problem) : Trial(problem, make_operands(problem)) {}

Trial::Trial(const Problem& problem, const Operands& operands)
    : problem_(problem),
      pristine_(problem, operands),
      expected_(expected_outputs(problem, operands)) {}

std::string Trial::check(Backend& backend) const {
  Layout layout = pristine_;
  const Status status = run(backend, layout);
  std::string report;
  if (!status.ok()) {
    report = "status: " + status.message() + "\n";
  } else {
    report = stray_write(pristine_.memory, layout.memory, layout.outputs);
    for (const Expected& expected : expected_) {
      report += disagreement(layout, expected);
    }
  }
  return report.empty() ? report
                        : "\n" + to_string(problem_) + "\n  on " + backend.name() + "\n" + report;
}

}  // namespace fusednorm::testing
