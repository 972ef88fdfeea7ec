// SPDX-License-Identifier: Apache-2.0
// gamma and beta of a group, as a kernel wants them: the caller's, or expanded into the workspace
// for all groups at once, or by each task for its own.
#pragma once

#include "cpu/plan/layout.h"

namespace fusednorm::cpu {

/// One of the two.
struct ParameterRows {
  const void* given = nullptr;  ///< null: absent
  std::byte* expanded = nullptr;
  double offset = 0;
  double constant = 0;
};

struct Parameters {
  ParameterRows gamma;
  ParameterRows beta;
  Expand expand = nullptr;
  std::int64_t cols = 0;
  std::int64_t given_bytes = 0;     ///< of a row
  std::int64_t expanded_bytes = 0;  ///< of a row
  bool own = false;                 ///< each task has a row of its own

  template <typename Plan, typename Buffers>
  Parameters(const Plan& plan, const Buffers& buffers, const ExpandedParameters& layout,
             bool reads_beta)
      : gamma{plan.problem.has_gamma ? buffers.gamma : nullptr, layout.gamma,
              plan.problem.gamma_offset, 1},
        beta{reads_beta && plan.problem.has_beta ? buffers.beta : nullptr, layout.beta, 0, 0},
        expand(plan.kernels->expand),
        cols(plan.problem.cols),
        given_bytes(cols * static_cast<std::int64_t>(size_of(plan.problem.param_dtype))),
        expanded_bytes(layout.row_bytes),
        own(layout.own) {}

  /// Fills the rows of all groups, unless tasks have their own.
  void expand_all(std::int64_t groups) const {
    for (std::int64_t group = 0; !own && group < groups; ++group) fill(group, group);
  }

  /// Bytes from a group's row to the next group's, where tasks have none of their own.
  std::int64_t step(const ParameterRows& p) const {
    return p.expanded ? expanded_bytes : p.given ? given_bytes : 0;
  }

  /// Points `a` to the parameters of a group; `current` is what the task's own rows hold.
  template <typename Arguments>
  void select(Arguments& a, std::int64_t group, std::int64_t task, std::int64_t& current) const {
    if (own && current != group) fill(group, task);
    current = group;
    a.gamma = row_of(gamma, group, task);
    a.beta = row_of(beta, group, task);
  }

 private:
  void fill(std::int64_t group, std::int64_t at) const {
    for (const ParameterRows* p : {&gamma, &beta}) {
      if (p->expanded)
        expand(given_row(*p, group), p->offset, p->constant, cols,
               p->expanded + at * expanded_bytes);
    }
  }
  const void* given_row(const ParameterRows& p, std::int64_t group) const {
    return p.given ? static_cast<const std::byte*>(p.given) + group * given_bytes : nullptr;
  }
  const void* row_of(const ParameterRows& p, std::int64_t group, std::int64_t task) const {
    if (p.expanded) return p.expanded + (own ? task : group) * expanded_bytes;
    return given_row(p, group);
  }
};

}  // namespace fusednorm::cpu
