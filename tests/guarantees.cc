// SPDX-License-Identifier: Apache-2.0
// Comparison of bits.
#include "guarantees.h"

#include <algorithm>
#include <limits>

#include "reference/element.h"

namespace fusednorm::testing {
namespace {

std::vector<double> slice(const std::vector<double>& values, std::int64_t begin,
                          std::int64_t count) {
  return values.empty()
             ? values
             : std::vector<double>(values.begin() + begin, values.begin() + begin + count);
}

/// The arrays that have a value for each element of x, and those that have one for each row.
std::vector<std::vector<double>*> row_arrays(Operands& in) {
  return {&in.x, &in.residual, &in.sum, &in.dy, &in.ds, &in.y};
}
std::vector<std::vector<double>*> statistics(Operands& in) {
  return {&in.mean, &in.rstd};
}

/// `problem` becomes that of some of its rows, in one level, each with its own row of parameters.
Operands take_rows(Problem* problem, const Operands& all, std::int64_t begin, std::int64_t count) {
  const Problem whole = *problem;
  problem->rows = count;
  problem->inner_rows = 0;
  problem->outer = {};
  Operands some = all;
  for (std::vector<double>* values : row_arrays(some)) {
    *values = slice(*values, begin * whole.cols, count * whole.cols);
  }
  for (std::vector<double>* values : statistics(some)) *values = slice(*values, begin, count);
  if (whole.param_groups == 1) return some;
  problem->param_groups = count;
  problem->rows_per_group = 1;
  for (const auto& [to, from] : {std::pair(&some.gamma, &all.gamma), {&some.beta, &all.beta}}) {
    to->clear();
    for (std::int64_t row = begin; row < begin + count && !from->empty(); ++row) {
      const std::int64_t group = param_row(row, whole.rows_per_group, whole.param_groups);
      const auto first = from->begin() + group * whole.cols;
      to->insert(to->end(), first, first + whole.cols);
    }
  }
  return some;
}

/// Every row but those of [begin, begin + count) becomes NaN.
Operands poison_others(const Problem& problem, Operands all, std::int64_t begin,
                       std::int64_t count) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::vector<double>* values : row_arrays(all)) {
    for (std::int64_t index = 0; index < static_cast<std::int64_t>(values->size()); ++index) {
      const std::int64_t row = index / problem.cols;
      if (row < begin || row >= begin + count) {
        (*values)[index] = nan;
      }
    }
  }
  return all;
}

bool is_of_a_row(const std::string& output) {
  return output != "dgamma" && output != "dbeta";
}

std::string where(const Problem& problem, const Backend& first, const Backend& second,
                  const std::string& what) {
  return "\n" + to_string(problem) + "\n  " + what + " differs between\n  " + first.name() +
         " and\n  " + second.name() + "\n";
}

}  // namespace

std::string same_bits(const Problem& problem, Backend& first, Backend& second) {
  const Layout pristine(problem, make_operands(problem));
  Layout one = pristine, two = pristine;
  for (const Status& status : {run(first, one), run(second, two)}) {
    if (!status.ok()) {
      return to_string(problem) + ": " + status.message();
    }
  }
  for (const OutputArray& output : pristine.outputs) {
    if (output_bytes(one, output.name) != output_bytes(two, output.name)) {
      return where(problem, first, second, output.name);
    }
  }
  return {};
}

std::string batch_invariant(const Problem& problem, Backend& among, Backend& apart,
                            std::int64_t batch, bool poisoned_company) {
  const Operands operands = make_operands(problem);
  Layout whole(problem, operands);
  if (const Status status = run(among, whole); !status.ok()) {
    return to_string(problem) + ": " + status.message();
  }
  for (std::int64_t begin = 0; begin < problem.rows; begin += batch) {
    Problem part = problem;
    const std::int64_t count = std::min(batch, problem.rows - begin);
    const Operands rows = poisoned_company ? poison_others(problem, operands, begin, count)
                                           : take_rows(&part, operands, begin, count);
    Layout few(part, rows);
    if (const Status status = run(apart, few); !status.ok()) {
      return to_string(part) + ": " + status.message();
    }
    for (const OutputArray& output : whole.outputs) {
      if (!is_of_a_row(output.name)) {
        continue;
      }
      const auto all_bytes = output_bytes(whole, output.name);
      const auto few_bytes = output_bytes(few, output.name);
      const std::size_t row_bytes = all_bytes.size() / static_cast<std::size_t>(problem.rows);
      const std::size_t skipped =
          static_cast<std::size_t>(poisoned_company ? begin : 0) * row_bytes;
      if (!std::equal(few_bytes.begin() + skipped, few_bytes.begin() + skipped + count * row_bytes,
                      all_bytes.begin() + begin * row_bytes)) {
        return where(problem, among, apart,
                     output.name + " of rows " + std::to_string(begin) + " to " +
                         std::to_string(begin + count - 1) + ", among " +
                         std::to_string(problem.rows) + " and apart,");
      }
    }
  }
  return {};
}

namespace {

std::vector<double> output_values(const Layout& layout, const std::string& name) {
  for (const OutputArray& output : layout.outputs) {
    if (output.name != name) continue;
    const auto bytes = output_bytes(layout, name);
    std::vector<double> values(bytes.size() / size_of(output.dtype));
    for (std::size_t index = 0; index < values.size(); ++index) {
      values[index] = reference::load(output.dtype, bytes.data(), static_cast<std::int64_t>(index));
    }
    return values;
  }
  return {};
}

/// The norm of the stored sum, of packed rows.
Problem unfused(const Problem& problem) {
  Problem plain = problem;
  plain.x_dtype = problem.residual_dtype;
  if (problem.has_dresidual()) plain.y_dtype = problem.residual_dtype;
  plain.has_residual = plain.has_ds = plain.out[3] = false;
  plain.inner_rows = 0;
  plain.stride = plain.outer = plain.offset = {};
  plain.in_place = InPlace::none;
  return plain;
}

/// Empty, or why `problem` has no unfused counterpart with the same bits.
std::string not_comparable(const Problem& problem) {
  if (!problem.has_residual || !problem.has_dy) return "there is nothing to fuse";
  const bool other_dtype = problem.has_dresidual();
  if (problem.is_forward()) {
    const bool twice = problem.rounding != Rounding::once && problem.beta != Beta::none;
    const bool narrow = problem.y_dtype != problem.residual_dtype;
    return other_dtype && narrow && twice ? "y is rounded before beta is added" : "";
  }
  if (other_dtype) return "the plain backward has no dy and dx of these dtypes";
  const bool sixteen_bits = compute_dtype(problem.x_dtype) != problem.x_dtype;
  return problem.has_ds && sixteen_bits ? "dx + ds is rounded once" : "";
}

}  // namespace

std::string fused_as_unfused(const Problem& problem, Backend& backend) {
  if (const std::string why = not_comparable(problem); !why.empty()) {
    return to_string(problem) + ": " + why;
  }
  const Operands operands = make_operands(problem);
  Operands summed = operands;
  summed.x = operands.sum;
  summed.residual = summed.sum = summed.ds = {};
  const Problem plain = unfused(problem);
  Layout together(problem, operands), apart(plain, summed);
  for (const auto& [which, status] :
       {std::pair(&problem, run(backend, together)), {&plain, run(backend, apart)}}) {
    if (!status.ok()) return to_string(*which) + ": " + status.message();
  }
  for (const OutputArray& output : together.outputs) {
    if (output.name == "dgamma" || output.name == "dbeta") continue;  // of rows, not of a row
    std::vector<double> expected =
        output.name == "sum" ? operands.sum : output_values(apart, output.name);
    const std::vector<double> got = output_values(together, output.name);
    for (std::size_t index = 0; index < got.size(); ++index) {
      if (output.name == "dx" && problem.has_ds) expected[index] += operands.ds[index];
      expected[index] = reference::rounded(output.dtype, expected[index]);
      if (got[index] == expected[index]) continue;
      return "\n" + to_string(problem) + "\n  " + output.name + "[" + std::to_string(index) +
             "] is not that of\n" + to_string(plain) + "\n  on " + backend.name() + "\n";
    }
  }
  return {};
}

}  // namespace fusednorm::testing
