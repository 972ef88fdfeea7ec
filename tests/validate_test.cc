// SPDX-License-Identifier: Apache-2.0
// What validate() accepts and refuses of the family, without a backend: which arrays may share a
// place, and which may be absent.
#include "validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "mentions.h"

namespace fusednorm::testing {
namespace {

constexpr std::int64_t kRows = 6, kCols = 8;

/// Arrays as indices into one block of floats; x and y are f32 unless a case says otherwise.
struct Forward {
  ForwardProblem problem;
  ForwardBuffers buffers;
  std::vector<float> memory = std::vector<float>(4000);

  Forward() {
    problem.rows = kRows;
    problem.cols = kCols;
    problem.save_mean = problem.save_rstd = true;
    problem.has_residual = true;
    buffers = {at(0), at(300), at(400), at(500), at(800), at(900), at(1000), at(1300)};
  }
  float* at(int index) { return memory.data() + index; }
  Status check() {
    const Status status = validate(problem);
    return status ? validate(problem, buffers, {}, 0) : status;
  }
};

struct Backward {
  BackwardProblem problem;
  BackwardBuffers buffers;
  std::vector<float> memory = std::vector<float>(4000);

  Backward() {
    problem.rows = kRows;
    problem.cols = kCols;
    problem.has_residual = problem.has_ds = true;
    buffers.dy = at(0);
    buffers.x = buffers.y = at(300);
    buffers.gamma = at(600);
    buffers.beta = at(700);
    buffers.mean = at(800);
    buffers.rstd = at(900);
    buffers.dx = at(1000);
    buffers.dgamma = at(1300);
    buffers.dbeta = at(1400);
    buffers.ds = at(1500);
    buffers.dresidual = at(1800);
  }
  /// bf16 x beside an f32 residual: dresidual exists.
  void two_dtypes() {
    problem.x_dtype = problem.y_dtype = DType::bf16;
    problem.want_dresidual = true;
  }
  float* at(int index) { return memory.data() + index; }
  Status check() {
    const Status status = validate(problem);
    return status ? validate(problem, buffers, {}, 0) : status;
  }
};

/// `names`: what the refusal mentions; empty: it is allowed.
template <typename Call>
struct Case {
  const char* what;
  std::function<void(Call&)> change;
  std::vector<std::string> names;
};

template <typename Call>
void expect(const std::vector<Case<Call>>& cases) {
  for (const auto& [what, change, names] : cases) {
    Call call;
    change(call);
    const Status status = call.check();
    EXPECT_EQ(status.ok(), names.empty()) << what << ": " << status.message();
    for (const std::string& name : names) {
      EXPECT_TRUE(mentions(status.message(), name))
          << what << ": \"" << status.message() << "\" does not name " << name;
    }
  }
}

TEST(Validate, SharedPlacesForward) {
  using C = Forward;
  const auto narrow = [](C& c) { c.problem.x_dtype = c.problem.y_dtype = DType::bf16; };
  expect<C>({
      {"all apart", [](C&) {}, {}},
      {"y exactly x", [](C& c) { c.buffers.y = c.at(0); }, {}},
      {"sum exactly residual", [](C& c) { c.buffers.sum = c.at(1000); }, {}},
      {"sum exactly x", [](C& c) { c.buffers.sum = c.at(0); }, {}},
      {"both in place",
       [](C& c) {
         c.buffers.y = c.at(0);
         c.buffers.sum = c.at(1000);
       },
       {}},
      {"residual exactly x", [](C& c) { c.buffers.residual = c.at(0); }, {}},
      {"y exactly residual", [](C& c) { c.buffers.y = c.at(1000); }, {"y", "residual"}},
      {"y exactly sum", [](C& c) { c.buffers.sum = c.at(500); }, {"sum", "y"}},
      {"y and sum exactly x", [](C& c) { c.buffers.y = c.buffers.sum = c.at(0); }, {"sum", "y"}},
      {"sum one element into residual",
       [](C& c) { c.buffers.sum = c.at(1001); },
       {"sum", "residual"}},
      {"sum at residual with another stride",
       [](C& c) {
         c.buffers.sum = c.at(1000);
         c.problem.sum_row_stride = 9;
       },
       {"sum", "residual"}},
      {"f32 sum exactly 16-bit x",
       [=](C& c) {
         narrow(c);
         c.buffers.sum = c.at(0);
       },
       {"sum", "x"}},
      {"sum over gamma", [](C& c) { c.buffers.sum = c.at(298); }, {"sum", "gamma"}},
      {"mean over residual", [](C& c) { c.buffers.mean = c.at(1003); }, {"mean", "residual"}},
      {"rstd over sum", [](C& c) { c.buffers.rstd = c.at(1300); }, {"rstd", "sum"}},
      {"mean over the last group of gamma",
       [](C& c) {
         c.problem.param_groups = 3;
         c.buffers.mean = c.at(300 + 2 * kCols);
       },
       {"mean", "gamma"}},
      {"the same without that group",
       [](C& c) {
         c.problem.param_groups = 2;
         c.buffers.mean = c.at(300 + 2 * kCols);
       },
       {}},
  });
}

// A token of a packed qkv: 3 heads of q, then k, then v, as rows of two levels.
TEST(Validate, PackedQkv) {
  using C = Forward;
  const auto packed_qkv = [](C& c, int y) {
    c.problem.has_residual = false;
    c.problem.inner_rows = 3;
    c.problem.x_outer_stride = c.problem.y_outer_stride = 5 * kCols;
    c.buffers.y = c.at(y);
  };
  expect<C>({
      {"q in place", [=](C& c) { packed_qkv(c, 0); }, {}},
      {"q to k's and v's place, which is too small",
       [=](C& c) { packed_qkv(c, 3 * kCols); },
       {"y", "x"}},
      {"two heads of q to k and v",
       [=](C& c) {
         packed_qkv(c, 3 * kCols);
         c.problem.inner_rows = 2;
         c.problem.rows = 4;
       },
       {}},
      {"and back",
       [=](C& c) {
         packed_qkv(c, 0);
         c.buffers.x = c.at(3 * kCols);
         c.problem.inner_rows = 2;
         c.problem.rows = 4;
       },
       {}},
      {"the same, one element off",
       [=](C& c) {
         packed_qkv(c, 3 * kCols + 1);
         c.problem.inner_rows = 2;
         c.problem.rows = 4;
       },
       {"y", "x"}},
      {"heads that interleave",
       [=](C& c) {
         packed_qkv(c, kCols);
         c.problem.x_row_stride = c.problem.y_row_stride = 2 * kCols;
         c.problem.x_outer_stride = c.problem.y_outer_stride = 6 * kCols;
       },
       {}},
      {"heads that interleave and touch",
       [=](C& c) {
         packed_qkv(c, kCols - 1);
         c.problem.x_row_stride = c.problem.y_row_stride = 2 * kCols;
         c.problem.x_outer_stride = c.problem.y_outer_stride = 6 * kCols;
       },
       {"y", "x"}},
      {"transposed: heads outside, tokens inside",
       [=](C& c) {
         packed_qkv(c, 2 * kCols);
         c.problem.x_row_stride = c.problem.y_row_stride = 4 * kCols;
         c.problem.x_outer_stride = c.problem.y_outer_stride = kCols;
       },
       {}},
      {"transposed, one head too many",
       [=](C& c) {
         packed_qkv(c, kCols);
         c.problem.x_row_stride = c.problem.y_row_stride = 4 * kCols;
         c.problem.x_outer_stride = c.problem.y_outer_stride = kCols;
       },
       {"y", "x"}},
      {"the address and row stride of x with another outer stride",
       [=](C& c) {
         packed_qkv(c, 0);
         c.problem.y_outer_stride = 6 * kCols;
       },
       {"y", "x"}},
      {"an outer stride that no row needs",
       [=](C& c) {
         packed_qkv(c, 0);
         c.problem.inner_rows = kRows;
         c.problem.y_outer_stride = 7;
       },
       {}},
  });
}

TEST(Validate, SharedPlacesBackward) {
  using C = Backward;
  expect<C>({
      {"all apart", [](C&) {}, {}},
      {"dx exactly ds", [](C& c) { c.buffers.dx = c.at(1500); }, {}},
      {"dx exactly the sum", [](C& c) { c.buffers.dx = c.at(300); }, {}},
      {"ds exactly dy", [](C& c) { c.buffers.ds = c.at(0); }, {}},
      {"dx one element into ds", [](C& c) { c.buffers.dx = c.at(1501); }, {"dx", "ds"}},
      {"dgamma over ds", [](C& c) { c.buffers.dgamma = c.at(1510); }, {"dgamma", "ds"}},
      {"two dtypes apart", [](C& c) { c.two_dtypes(); }, {}},
      {"dresidual exactly ds",
       [](C& c) {
         c.two_dtypes();
         c.buffers.dresidual = c.at(1500);
       },
       {}},
      {"dresidual exactly the sum",
       [](C& c) {
         c.two_dtypes();
         c.buffers.dresidual = c.at(300);
       },
       {}},
      {"16-bit dx at f32 ds",
       [](C& c) {
         c.two_dtypes();
         c.buffers.dx = c.at(1500);
       },
       {"dx", "ds"}},
      {"dresidual at dy",
       [](C& c) {
         c.two_dtypes();
         c.buffers.dresidual = c.at(0);
       },
       {"dresidual", "dy"}},
      {"dresidual exactly y",
       [](C& c) {
         c.two_dtypes();
         c.problem.source = Source::y;
         c.buffers.dresidual = c.at(300);
       },
       {"dresidual", "y"}},
      {"dresidual over dx",
       [](C& c) {
         c.two_dtypes();
         c.buffers.dresidual = c.at(1000);
       },
       {"dresidual", "dx"}},
      {"dbeta over dresidual",
       [](C& c) {
         c.two_dtypes();
         c.buffers.dbeta = c.at(1800 + kCols);
       },
       {"dbeta", "dresidual"}},
      {"dbeta over the last group of dgamma",
       [](C& c) {
         c.problem.param_groups = 4;
         c.buffers.dbeta = c.at(1300 + 3 * kCols);
       },
       {"dgamma", "dbeta"}},
  });
}

TEST(Validate, WithoutDyOnlyDsIsRead) {
  using C = Backward;
  const auto without_dy = [](C& c) {
    c.problem.has_dy = false;
    c.buffers.dy = c.buffers.x = c.buffers.y = c.buffers.gamma = c.buffers.beta = nullptr;
    c.buffers.mean = c.buffers.rstd = nullptr;
  };
  expect<C>({
      {"all else null", without_dy, {}},
      {"dx exactly ds",
       [=](C& c) {
         without_dy(c);
         c.buffers.dx = c.at(1500);
       },
       {}},
      {"null ds",
       [=](C& c) {
         without_dy(c);
         c.buffers.ds = nullptr;
       },
       {"ds", "null"}},
      {"null dgamma",
       [=](C& c) {
         without_dy(c);
         c.buffers.dgamma = nullptr;
       },
       {"dgamma", "null"}},
  });
}

TEST(Validate, RmsNormNeedsNoMeanAndMayHaveABeta) {
  Forward forward;
  forward.problem.operation = Operation::rms_norm;
  forward.problem.save_mean = false;
  forward.buffers.mean = nullptr;
  EXPECT_TRUE(forward.check()) << forward.check().message();
  Backward backward;
  backward.problem.operation = Operation::rms_norm;
  backward.buffers.mean = nullptr;
  EXPECT_TRUE(backward.check()) << backward.check().message();
}

TEST(Validate, DtypesOfParameters) {
  for (const DType x : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const DType param : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      for (const DType y : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
        ForwardProblem problem;
        problem.x_dtype = x;
        problem.param_dtype = param;
        problem.y_dtype = y;
        const bool right_param = param == x || param == DType::f32 ||
                                 (x == DType::f32 && (param == DType::f16 || param == DType::bf16));
        const bool right = right_param && (y == x || y == param);
        const Status status = validate(problem);
        EXPECT_EQ(status.ok(), right)
            << name_of(x) << "/" << name_of(param) << "/" << name_of(y) << ": " << status.message();
        if (right_param) continue;
        EXPECT_TRUE(mentions(status.message(), name_of(x))) << status.message();
        EXPECT_TRUE(mentions(status.message(), name_of(param))) << status.message();
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
