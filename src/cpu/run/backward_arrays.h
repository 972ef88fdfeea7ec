// SPDX-License-Identifier: Apache-2.0
// One backward run's constants: arrays, parameters, and what kernels are told of rows.
#pragma once

#include <cstring>

#include "cpu/plan/layout.h"
#include "cpu/run/parameters.h"
#include "cpu/run/row_array.h"
#include "norms/norm.h"

namespace fusednorm::cpu {

struct BackwardRun {
  const BackwardPlan& plan;
  const BackwardBuffers& buffers;
  const BackwardLayout& layout;
  const BackwardKernels& kernels;
  Parameters parameters;
  BackwardArguments arguments;
  RowArray dy, source, ds, dx, dresidual;
  std::int64_t element;  ///< bytes of the compute type
  bool want_sums;
  bool streaming;

  BackwardRun(const BackwardPlan& of, const BackwardBuffers& b, const BackwardLayout& in)
      : plan(of),
        buffers(b),
        layout(in),
        kernels(*of.kernels),
        parameters(of, b, in.parameters, of.problem.source == Source::y),
        arguments{},
        element(bytes_of(compute_dtype(of.problem.x_dtype))),
        want_sums(of.problem.want_dgamma || of.problem.want_dbeta) {
    const BackwardProblem& p = plan.problem;
    const bool from_y = p.source == Source::y;
    const auto rows = [&](std::int64_t row, std::int64_t outer) {
      return row_layout(p.cols, row, p.inner_rows, outer);
    };
    const DType row = row_dtype(p);
    dy = {p.has_dy, b.dy, rows(p.dy_row_stride, p.dy_outer_stride), p.y_dtype};
    source = {p.has_dy, from_y ? b.y : b.x, rows(p.source_row_stride, p.source_outer_stride),
              from_y ? p.y_dtype : row};
    ds = {p.has_ds, b.ds, rows(p.ds_row_stride, p.ds_outer_stride), row};
    dx = {p.want_dx, b.dx, rows(p.dx_row_stride, p.dx_outer_stride), p.x_dtype};
    dresidual = {p.want_dresidual, b.dresidual,
                 rows(p.dresidual_row_stride, p.dresidual_outer_stride), row};
    streaming = plan.streaming_stores && apart(dx) && apart(dresidual);
    set_arguments();
  }

  /// Points the arguments to rows of a run. dx in the compute type has a place of its own.
  void aim(BackwardArguments& a, const RowRun& run) const {
    const auto statistic = [&](const void* array) -> const void* {
      return array ? static_cast<const std::byte*>(array) + run.first * element : nullptr;
    };
    a.dy = dy.at(run.first);
    a.dy_stride = dy.stride(run.step);
    a.source = source.at(run.first);
    a.source_stride = source.stride(run.step);
    a.mean = statistic(norms::has_mean(a.operation) ? buffers.mean : nullptr);
    a.rstd = statistic(buffers.rstd);
    a.statistics_stride = run.step;
    a.ds = keeps_dx(plan) ? nullptr : ds.at(run.first);
    a.ds_stride = ds.stride(run.step);
    const RowArray& out = dx ? dx : dresidual;
    a.dx = out.at(run.first);
    a.dx_stride = out.stride(run.step);
  }

  /// Some columns of dy or y, in the compute type.
  void widen(const RowArray& from, const RowRun& run, std::int64_t column, std::int64_t cols,
             void* to, std::int64_t stride) const {
    AddArguments add;
    add.a = from.at(run.first, column);
    add.a_stride = from.stride(run.step);
    add.first = to;
    add.first_stride = stride;
    plan.widen_dy(add, 0, run.count, 0, cols);
  }

  /// Some columns of dx and dresidual: d + ds, of which one may be null.
  void add_ds(const RowRun& run, std::int64_t column, std::int64_t cols, const void* d,
              std::int64_t stride) const {
    AddArguments add;
    add.a = d ? d : ds.at(run.first, column);
    add.a_stride = d ? stride : ds.stride(run.step);
    add.b = d ? ds.at(run.first, column) : nullptr;
    add.b_stride = ds.stride(run.step);
    const RowArray& first = dx ? dx : dresidual;
    add.first = first.at(run.first, column);
    add.first_stride = first.stride(run.step);
    add.second = dx ? dresidual.at(run.first, column) : nullptr;
    add.second_stride = dresidual.stride(run.step);
    add.streams_first = add.streams_second = streaming;
    plan.add_ds(add, 0, run.count, 0, cols);
  }

  /// Whether the sums of dgamma are gamma times too large.
  bool divides() const { return plan.problem.source == Source::y && plan.problem.has_gamma; }
  void clear(void* sums, std::int64_t count) const {
    std::memset(sums, 0, static_cast<std::size_t>(count * element));
  }

 private:
  /// In place, the lines to write are in the cache already.
  bool apart(const RowArray& out) const {
    return !out || (out.data != dy.data && out.data != source.data && out.data != ds.data);
  }

  void set_arguments() {
    const BackwardProblem& p = plan.problem;
    BackwardArguments& a = arguments;
    a.operation = p.operation;
    a.gamma = parameters.gamma.given;
    a.beta = parameters.beta.given;
    a.cols = p.cols;
    // What an add pass reads next is to stay.
    a.streaming = streaming && !keeps_dx(plan);
    a.segments = segments_of(p.cols, row_dtype(p));
    a.gamma_offset = p.has_gamma ? p.gamma_offset : 0;
    a.expand = kernels.takes_given && a.gamma_offset == 0 ? nullptr : kernels.expand;
    a.param_size = bytes_of(p.param_dtype);
  }
};

}  // namespace fusednorm::cpu
