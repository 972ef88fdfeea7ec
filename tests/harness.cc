// SPDX-License-Identifier: Apache-2.0
// Layout of memory, execution, comparison.
#include "harness.h"

#include <cstdlib>
#include <sstream>
#include <utility>

#include "reference/element.h"
#include "tolerances.h"

namespace fusednorm::testing {
namespace {

/// Lays arrays out in a layout's memory, fills them and lists the outputs.
class Arrays {
 public:
  explicit Arrays(Layout& layout) : layout_(layout), problem_(layout.problem) {}

  /// An array of rows, `index`th in the order of the problem's strides. Without values it is left
  /// poisoned.
  Place rows(DType dtype, int index, const std::vector<double>* values = nullptr) {
    const RowLayout rows = row_layout_of(index);
    const Place place =
        layout_.memory.allocate(dtype, extent_of(problem_, index), problem_.offset[index]);
    if (values != nullptr) fill(place, dtype, problem_.rows, problem_.cols, rows, *values);
    return place;
  }
  /// A contiguous array of parameters or statistics.
  Place vector(DType dtype, const std::vector<double>& values) {
    const auto size = static_cast<std::int64_t>(values.size());
    const Place place = layout_.memory.allocate(dtype, size, problem_.offset[0]);
    fill(place, dtype, 1, size, {}, values);
    return place;
  }
  void output_rows(const char* name, DType dtype, int index, Place place) {
    layout_.outputs.push_back(
        {name, dtype, place, problem_.rows, problem_.cols, row_layout_of(index)});
  }
  Place output_vector(const char* name, DType dtype, std::int64_t size) {
    const Place place = layout_.memory.allocate(dtype, size, problem_.offset[0]);
    layout_.outputs.push_back({name, dtype, place, 1, size, {}});
    return place;
  }

 private:
  RowLayout row_layout_of(int index) const {
    return row_layout(problem_.cols, problem_.stride[index], problem_.inner_rows,
                      problem_.outer[index]);
  }
  void fill(Place place, DType dtype, std::int64_t rows, std::int64_t cols,
            const RowLayout& row_layout, const std::vector<double>& values) {
    std::byte* array = layout_.memory.at(place);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t start = row_layout.start_of(row);
      for (std::int64_t col = 0; col < cols; ++col) {
        reference::store(dtype, array, start + col, values[row * cols + col]);
      }
    }
  }

  Layout& layout_;
  const Problem& problem_;
};

void lay_out_forward(Layout& layout, const Operands& in) {
  const Problem& problem = layout.problem;
  ForwardPlaces& places = layout.forward;
  Arrays arrays(layout);
  const DType stats = compute_dtype(problem.x_dtype);
  const InPlace in_place = problem.in_place;
  const bool both = in_place == InPlace::y_over_x_and_sum_over_residual;
  places.x = arrays.rows(problem.x_dtype, kX, &in.x);
  places.y = both || in_place == InPlace::y_over_x ? places.x : arrays.rows(problem.y_dtype, kY);
  if (problem.has_residual) {
    const DType dtype = problem.residual_dtype;
    places.residual = arrays.rows(dtype, kResidual, &in.residual);
    places.sum = both || in_place == InPlace::sum_over_residual ? places.residual
                 : in_place == InPlace::sum_over_x              ? places.x
                                                                : arrays.rows(dtype, kSum);
  }
  if (!in.gamma.empty()) places.gamma = arrays.vector(problem.param_dtype, in.gamma);
  if (!in.beta.empty()) places.beta = arrays.vector(problem.param_dtype, in.beta);
  arrays.output_rows("y", problem.y_dtype, kY, places.y);
  if (problem.has_residual) arrays.output_rows("sum", problem.residual_dtype, kSum, places.sum);
  if (problem.out[0]) places.mean = arrays.output_vector("mean", stats, problem.rows);
  if (problem.out[1]) places.rstd = arrays.output_vector("rstd", stats, problem.rows);
}

/// Without dy, dy and what only its gradient needs stay null: nothing may read them.
void lay_out_backward_inputs(Layout& layout, Arrays& arrays, const Operands& in) {
  const Problem& problem = layout.problem;
  BackwardPlaces& places = layout.backward;
  const DType stats = compute_dtype(problem.x_dtype);
  const DType source = problem.from_y() ? problem.y_dtype : problem.row_dtype();
  if (problem.has_ds) places.ds = arrays.rows(problem.residual_dtype, kDs, &in.ds);
  if (problem.has_dy || problem.in_place == InPlace::dx_over_source ||
      problem.in_place == InPlace::dresidual_over_source) {
    places.source = arrays.rows(source, kSource, problem.from_y() ? &in.y : &in.rows());
  }
  if (!problem.has_dy) return;
  places.dy = arrays.rows(problem.y_dtype, kDy, &in.dy);
  if (!in.gamma.empty()) places.gamma = arrays.vector(problem.param_dtype, in.gamma);
  if (problem.from_y() && !in.beta.empty()) {
    places.beta = arrays.vector(problem.param_dtype, in.beta);
  }
  if (!problem.from_y()) places.mean = arrays.vector(stats, in.mean);
  places.rstd = arrays.vector(stats, in.rstd);
}

void lay_out_backward(Layout& layout, const Operands& in) {
  const Problem& problem = layout.problem;
  BackwardPlaces& places = layout.backward;
  Arrays arrays(layout);
  lay_out_backward_inputs(layout, arrays, in);
  const InPlace in_place = problem.in_place;
  if (problem.out[0]) {
    places.dx = in_place == InPlace::dx_over_dy       ? places.dy
                : in_place == InPlace::dx_over_source ? places.source
                : in_place == InPlace::dx_over_ds     ? places.ds
                                                      : arrays.rows(problem.x_dtype, kDx);
    arrays.output_rows("dx", problem.x_dtype, kDx, places.dx);
  }
  if (problem.out[3]) {
    places.dresidual = in_place == InPlace::dresidual_over_ds ? places.ds
                       : in_place == InPlace::dresidual_over_source
                           ? places.source
                           : arrays.rows(problem.residual_dtype, kDresidual);
    arrays.output_rows("dresidual", problem.residual_dtype, kDresidual, places.dresidual);
  }
  const std::int64_t parameters = problem.param_groups * problem.cols;
  if (problem.out[1]) {
    places.dgamma = arrays.output_vector("dgamma", problem.param_dtype, parameters);
  }
  if (problem.out[2]) {
    places.dbeta = arrays.output_vector("dbeta", problem.param_dtype, parameters);
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
      const double got = reference::load(output.dtype, array, output.layout.start_of(row) + col);
      const Interval allowed{expected.low[index], expected.high[index]};
      if (allowed.holds(got)) {
        continue;
      }
      if (++wrong == 1) {
        report << output.name << "[" << row << ", " << col << "] is " << got << ", expected "
               << expected.values[index] << ", rounded to " << name_of(output.dtype) << " "
               << allowed.low << " to " << allowed.high;
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
    const std::byte* begin =
        array + static_cast<std::size_t>(output.layout.start_of(row)) * element;
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
      const std::size_t at = static_cast<std::size_t>(output.layout.start_of(row)) * element;
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
