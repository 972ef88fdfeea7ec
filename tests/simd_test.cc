// SPDX-License-Identifier: Apache-2.0
// What lies in src/cpu/simd, on every instruction set that the machine has: conversion, rounding,
// tails, unaligned heads and tails of cache lines, layouts of columns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch/select.h"
#include "cpu/simd/parameters-inl.h"
#include "cpu/simd/row_input-inl.h"
#include "cpu/simd/row_output-inl.h"
#include "reference/element.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

using D = Vectors<float>;
using Order = InOrder<D>;
using Pairs = Lanes<D, BFloat16, BFloat16>;  // scalar code has no pairs: in order there

template <typename T>
reference::Format16 format_of() {
  return std::is_same_v<T, Float16> ? reference::format_f16 : reference::format_bf16;
}

/// Element i of a step of layout L, as a float.
template <class L, typename T>
std::vector<float> loaded(const T* from) {
  std::vector<float> out(L::step());
  const auto step = L::load(from);
  L::each_part([&](auto k) HWY_ATTR {
    float lanes[hn::MaxLanes(D())];
    hn::StoreU(L::part(step, k), D(), lanes);
    for (size_t lane = 0; lane < hn::Lanes(D()); ++lane) out[lane * L::parts + k] = lanes[lane];
  });
  return out;
}

/// The codes that a step of `values` is stored as.
template <class L, typename T>
std::vector<uint16_t> stored(const float* values) {
  std::vector<T> out(L::step());
  L::template store<Cache::keep>(out.data(), [&](auto k) HWY_ATTR {
    float lanes[hn::MaxLanes(D())];
    for (size_t lane = 0; lane < hn::Lanes(D()); ++lane) lanes[lane] = values[lane * L::parts + k];
    return hn::LoadU(D(), lanes);
  });
  std::vector<uint16_t> codes;
  for (const T& element : out) codes.push_back(element.bits);
  return codes;
}

/// A step of `values`, rounded to T and back in the compute type.
template <class L, typename T>
std::vector<float> narrowed_step(const float* values) {
  std::vector<float> out(L::step());
  L::each_part([&](auto k) HWY_ATTR {
    float lanes[hn::MaxLanes(D())];
    for (size_t lane = 0; lane < hn::Lanes(D()); ++lane) lanes[lane] = values[lane * L::parts + k];
    hn::StoreU(L::narrowed(hn::LoadU(D(), lanes), dtype_of<T>), D(), lanes);
    for (size_t lane = 0; lane < hn::Lanes(D()); ++lane) out[lane * L::parts + k] = lanes[lane];
  });
  return out;
}

template <class L, typename T>
void check_every_code() {
  const size_t step = L::step();
  std::vector<T> elements(step);
  for (size_t code = 0; code < 65536; code += step) {
    for (size_t i = 0; i < step; ++i) elements[i].bits = static_cast<uint16_t>(code + i);
    const auto values = loaded<L>(elements.data());
    for (size_t i = 0; i < step; ++i) {
      const double expected = reference::decode(elements[i].bits, format_of<T>());
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(values[i])) << code + i;
      else
        ASSERT_EQ(values[i], expected) << code + i;
    }
  }
}

/// Every number of the format, the middles between neighbours, and a float to either side.
template <class L, typename T>
void check_rounding() {
  const auto format = format_of<T>();
  std::vector<float> values;
  for (int code = 0; code + 1 < 65536; ++code) {
    const double low = reference::decode(static_cast<uint16_t>(code), format),
                 high = reference::decode(static_cast<uint16_t>(code + 1), format);
    const auto middle = static_cast<float>(low + (high - low) / 2);
    for (const float value : {static_cast<float>(low), middle, std::nextafterf(middle, -INFINITY),
                              std::nextafterf(middle, INFINITY)}) {
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  for (const float value : {INFINITY, -INFINITY, 65519.9f, 65520.0f, 3.4e38f, -3.4e38f, 1e-40f})
    values.push_back(value);
  values.resize(values.size() / L::step() * L::step() + L::step());
  for (size_t i = 0; i < values.size(); i += L::step()) {
    const auto codes = stored<L, T>(&values[i]);
    const auto narrow = narrowed_step<L, T>(&values[i]);
    for (size_t j = 0; j < L::step(); ++j) {
      const uint16_t expected = reference::encode(values[i + j], format);
      ASSERT_EQ(codes[j], expected) << values[i + j];
      ASSERT_EQ(narrow[j], reference::decode(expected, format)) << values[i + j];
    }
  }
}

/// NaNs with any payload stay NaN; the bf16 pairs are promised canonical ones.
template <class L, typename T>
void check_nan(std::initializer_list<uint32_t> payloads) {
  for (const uint32_t bits : payloads) {
    float nan;
    std::memcpy(&nan, &bits, sizeof nan);
    const std::vector<float> values(L::step(), nan);
    for (const uint16_t code : stored<L, T>(values.data()))
      ASSERT_TRUE(std::isnan(reference::decode(code, format_of<T>()))) << bits;
  }
}

void check_conversion() {
  check_every_code<Order, Float16>();
  check_every_code<Order, BFloat16>();
  check_every_code<Pairs, BFloat16>();
  check_rounding<Order, Float16>();
  check_rounding<Order, BFloat16>();
  check_rounding<Pairs, BFloat16>();
  const auto any = {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7f80ffffu};
  check_nan<Order, Float16>(any);
  check_nan<Order, BFloat16>(any);
  check_nan<Pairs, BFloat16>({0x7fc00000u, 0xffc00000u});
}

/// The tail of a row of n elements: each new element once, nothing written past the row.
template <class L, typename T>
void check_tail(size_t n) {
  const Tail<L> tail(n);
  ASSERT_EQ(tail.count, n % L::step());
  std::vector<T> row(n), out(n + 64);
  const auto code = [](size_t i) { return static_cast<uint16_t>(0x3c00 + i); };
  for (size_t i = 0; i < n; ++i) row[i].bits = code(i);
  std::memset(out.data(), 0xab, out.size() * sizeof(T));
  const auto input = RowInput<L, T>{row.data()};
  const auto step = input.load(tail);
  size_t counted = 0;
  L::each_part([&](auto k) HWY_ATTR {
    float lanes[hn::MaxLanes(D())];
    hn::StoreU(tail.only_new(hn::Set(D(), 1.0f), k), D(), lanes);
    for (size_t lane = 0; lane < hn::Lanes(D()); ++lane) counted += lanes[lane] == 1.0f;
  });
  if (tail.count) {
    ASSERT_EQ(counted, tail.count) << n;
  }
  RowOutput<L, T>{out.data()}.store(tail, [&](auto k) HWY_ATTR { return L::part(step, k); });
  for (size_t i = tail.wide ? tail.begin : 0; i < n; ++i) ASSERT_EQ(out[i].bits, code(i)) << n;
  for (size_t i = n; i < out.size(); ++i) ASSERT_EQ(out[i].bits, 0xabab) << n;
}

void check_tails() {
  for (size_t n = 1; n <= 100; ++n) {
    check_tail<Order, Float16>(n);
    check_tail<Order, BFloat16>(n);
    check_tail<Pairs, BFloat16>(n);
  }
}

/// Whole lines and unaligned steps together cover a row exactly.
template <typename T>
void check_lines(size_t step) {
  alignas(64) static const T array[4096] = {};
  for (size_t offset = 0; offset < 64 / sizeof(T); ++offset) {
    for (size_t n = 1; n <= 520; ++n) {
      const T* row = array + offset;
      if (!CacheLines<T>::fit(row, static_cast<int64_t>(n))) continue;
      const CacheLines<T> lines(row, n, step);
      std::vector<int> written(n, 0);
      for (size_t i = lines.begin; i < lines.end; ++i) ++written[i];
      if (lines.begin < lines.end) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(row + lines.begin) % 64, 0u);
        ASSERT_EQ((lines.end - lines.begin) % CacheLines<T>::line, 0u);
      }
      lines.each_unaligned(n, step, [&](size_t i) {
        ASSERT_LE(i + step, n) << "offset " << offset << ", n " << n;
        for (size_t j = i; j < i + step; ++j) ++written[j];
      });
      for (size_t i = 0; i < n; ++i) {
        ASSERT_GE(written[i], 1) << "offset " << offset << ", n " << n << ", column " << i;
        if (i >= lines.begin && i < lines.end) {
          ASSERT_EQ(written[i], 1);
        }
      }
    }
  }
}

void check_cache_lines() {
  if (Order::streams<float>) check_lines<float>(Order::step());
  if (Order::streams<Float16>) check_lines<Float16>(Order::step());
  if (in_pairs<Pairs>) check_lines<BFloat16>(Pairs::step());
}

/// An expanded parameter, read from any column on, holds that column's element.
template <class L, typename T>
void check_expand(int64_t count) {
  std::vector<T> given(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i % 97);
    if constexpr (std::is_same_v<T, float>)
      given[i] = value;
    else
      given[i].bits = reference::encode(value, format_of<T>());
  }
  std::vector<float> to(static_cast<size_t>(policy::room(count)));
  expand<L, T>(given.data(), 0.25, 1, count, to.data());
  const auto all = L::columns(static_cast<const float*>(to.data()), count);
  for (int64_t column = 0; column < count; ++column) {
    const auto at = all.at(column);
    ASSERT_EQ(*L::address(at, 0, Part<0>()), static_cast<float>(column % 97) + 0.25f);
    if constexpr (in_pairs<L>) {
      if (column + 1 < count) {
        ASSERT_EQ(*L::address(at, 0, Part<1>()), static_cast<float>((column + 1) % 97) + 0.25f);
      }
    }
  }
  expand<L, T>(nullptr, 0.25, 0.5, count, to.data());
  for (int64_t column = 0; column < count; ++column)
    ASSERT_EQ(*L::address(L::columns(to.data(), count).at(column), 0, Part<0>()), 0.5f);
}

void check_parameters() {
  for (const int64_t count : {1, 2, 3, 7, 31, 32, 33, 64, 127, 200}) {
    check_expand<Order, Float16>(count);
    check_expand<Order, float>(count);
    check_expand<Pairs, BFloat16>(count);
    check_expand<Pairs, float>(count);
  }
}

FUSEDNORM_TARGET_END

#if HWY_ONCE
namespace fusednorm::cpu {

HWY_EXPORT(check_conversion);
HWY_EXPORT(check_tails);
HWY_EXPORT(check_cache_lines);
HWY_EXPORT(check_parameters);

/// Runs the check that `select` finds for a target, on each target that the machine has.
template <typename Select>
void on_every_target(const Select& select) {
  int ran = 0;
  for (int64_t rest = HWY_TARGETS & hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    select(rest & -rest)();
    ++ran;
  }
  EXPECT_GT(ran, 0);
}

TEST(Simd, ConvertsAndRoundsEveryNumber) {
  on_every_target([](int64_t t) { return FUSEDNORM_SELECT_TARGET(check_conversion, t); });
}
TEST(Simd, TailsTakeEachElementOnce) {
  on_every_target([](int64_t t) { return FUSEDNORM_SELECT_TARGET(check_tails, t); });
}
TEST(Simd, LinesAndUnalignedStepsCoverARow) {
  on_every_target([](int64_t t) { return FUSEDNORM_SELECT_TARGET(check_cache_lines, t); });
}
TEST(Simd, ExpandedParametersMayBeReadFromAnyColumn) {
  on_every_target([](int64_t t) { return FUSEDNORM_SELECT_TARGET(check_parameters, t); });
}

}  // namespace fusednorm::cpu
#endif
