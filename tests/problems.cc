// SPDX-License-Identifier: Apache-2.0
// The table, and the expansion of its braces.
#include "problems.h"

#include <algorithm>
#include <set>

#include "problems/shapes.h"

namespace fusednorm::testing {
namespace {

/// "{3x768,3x1024,…}": every width that is measured, once.
std::string measured_widths() {
  std::string text;
  std::set<std::int64_t> widths;
  for (const auto& shape : problems::listed_shapes()) {
    if (!widths.insert(shape.cols).second) continue;
    text += (text.empty() ? "{" : ",") + std::to_string(std::min<std::int64_t>(shape.rows, 3)) +
            "x" + std::to_string(shape.cols);
  }
  return text + "}";
}

const std::string kPasses = "{forward,backward,backward_from_y}";
const std::string kDTypes =
    "{f64,f64/f32,f64/f32/f32,f32,f16,f16/f32,f16/f32/f32,bf16,bf16/f32,bf16/f32/f32}";
// One of each size and compute type, for rows of the table where the mixtures add nothing.
const std::string kFewDTypes = "{f64,f32,f16,bf16/f32}";
const std::string kSomeGradients = "out={dx,dgamma,dbeta,dx+dgamma,dx+dbeta,dgamma+dbeta}";

std::vector<TableRow> make_table() {
  const std::string all = kPasses + ":" + kDTypes + ":";
  const std::string few = kPasses + ":" + kFewDTypes + ":";
  const std::string f32_bf16 = kPasses + ":{f32,bf16/f32}:";
  const std::string forward_few = "forward:" + kFewDTypes + ":";
  const std::string backward_few = "{backward,backward_from_y}:" + kFewDTypes + ":";
  return {
      // Widths.
      {all + "{1,2,5}x{1,2,3}", "rows of one element have variance 0; less than half a vector"},
      {all + "3x{4,5,7,8,9,15,16,17,31,32,33}",
       "one to four vectors of every type, and one element more or less than each"},
      {few + "5x{47,48,49,63,64,65,95,96,97,127,128,129}",
       "tails of every length after a few whole vectors; limits of a part of a warp"},
      {few + "3x{191,192,193,255,256,257,383,384,385,511,512,513}",
       "either side of the limits at which unrolled loops and lanes a row change"},
      {few + "3x{760,767,768,769,1000,1023,1024,1025,1128}",
       "widths of models and quack's 760 and 1128: not a multiple of 16, of 8"},
      {few + "2x{1535,1536,1537,2047,2048,2049,2304,3072,3840,4095,4096,4097}",
       "apex Fast's list, either side of each power of two, segment limits"},
      {f32_bf16 + "2x{5120,6144,8191,8192,8193,10240,12288,12800,14336,15360}",
       "apex Fast's list: rows that fill registers"},
      {f32_bf16 + "2x{16383,16384,16385,18432,20480,24576,25600,30720,32767,32768,32769}",
       "apex Fast's list: rows that no longer fit registers, then L1"},
      {f32_bf16 + "2x{40960,49152,65535,65536,65537}", "apex Fast's widest; 16-bit column counts"},
      {f32_bf16 + "2x{131071,262144,262145}", "quack's widest; rows that no longer fit L2"},
      // Shapes of peers and users.
      {f32_bf16 + measured_widths(), "what is measured is tested"},
      {all + "{71x229,29x541}",
       "TransformerEngine's odd shapes: nothing is a multiple of anything"},
      {f32_bf16 + "{1,37,199}x{256,760,1128}", "quack's grid: one row, and a prime number of them"},
      {f32_bf16 + "{16x512,96x6144,64x12288}", "apex Fused's [32,16]; TransformerEngine's widths"},
      {f32_bf16 + "{4096x1024,512x4096}", "quack's 4096 rows: many rows for each thread"},
      {f32_bf16 + "{64x64,197x768}", "small calls: L1-resident; a vision transformer's 196 + 1"},
      // Many rows, long rows.
      {few + "{31,32,33,63,64,65,127,128,129,255,256,257}x5",
       "either side of the row-block limits of dgamma and dbeta's partial sums"},
      {"{backward,backward_from_y}:f32:{511,512,513,1023,1024,1025,2047,2049,4095,4097}x3",
       "more row blocks than one: a partial sum left out or added twice shows"},
      {f32_bf16 + "{65535,65536,65537}x3", "grid limits of 65535 (apex#411)"},
      {f32_bf16 + "100000x8", "rows >> cols: one task for many tiny rows"},
      {"{forward,backward}:{f32,bf16/f32}:1000000x8:dy=positive",
       "a million rows: dgamma and dbeta must not lose digits (all terms of one sign)"},
      {"backward:f32:1000000x8",
       "the same with terms of both signs: sums smaller than their terms"},
      {"backward:f32:1000000x2:dy=constant", "equal terms: the roundings of a long chain add up"},
      {"{forward,backward}:{f32,bf16/f32}:1x5000000", "one row, split over threads"},
      {"backward_from_y:f32:1x1000003", "the same from y, and a prime width"},
      {"{forward,backward}:{f32,bf16/f32}:8x1000000", "few long rows"},
      {"forward:{f64,f16}:2x1000001:data=ramp", "long rows whose parts have unlike means"},
      {"{backward,backward_from_y}:{bf16/f32/f32,f16/f32/f32}:{3x4097,5x70001}",
       "16-bit x beside f32 y in rows of several chunks, and an odd number of rows"},
      {"{forward,backward}:f64:3x{63489,63494}",
       "a row's last segment ends before the first whole line that it could begin"},
      // Empty.
      {all + "0x{1,7,768}", "zero rows: dgamma and dbeta are zeros (pytorch#80893)"},
      {"forward:" + kDTypes + ":{0,1,7}x0:out=none", "zero columns: nothing to write"},
      {"{backward,backward_from_y}:" + kDTypes + ":{0,1,7}x0", "zero columns: empty gradients"},
      // Numbers.
      {few + "3x{8,64,768,769,1000}:data=mean1000",
       "large-mean cancellation; lanes past the end counted in the variance (Liger#519)"},
      {all + "7x769:data=mean1000", "the same for every pair of dtypes"},
      {few + "5x{5,100,1023,4097}:data=mean10000", "mean 1e4, spread 1 (pytorch#51102, #40307)"},
      {"forward:{f32,f64}:1x1000000:data=mean10000", "the same in a row split over threads"},
      {few + "9x{1,2,3,7,64,769,4097}:data=constant", "variance 0: y is beta, dx has no 0/0"},
      {"forward:{f64,f32,f16,bf16}:9x{1,3,7,100,1000,2048,4097}:data=constant:eps=0",
       "0/0 is NaN in the formula: any number instead is noise"},
      {few + "3x{1,31,768}:data=zeros", "nothing but eps under the root"},
      {"{forward,backward}:" + kFewDTypes + ":3x{5,768}:data=tiny",
       "f16 subnormals; variance far below eps"},
      {few + "3x{5,768}:data=tiny:eps=0", "tiny values without eps: rstd is huge and finite"},
      {few + "3x{5,768}:data=huge", "squares near 1e30, sums of squares beyond f16"},
      {few + "4x{96,769,5000}:data=ramp", "segments with unlike means: Chan's merge matters"},
      {few + "12x{96,769,5000}:data=offset",
       "kernels that centre rows only where the mean needs it: on both sides of where they begin"},
      {"backward:{bf16,f16,bf16/f32,f16/f32}:24x{256,784,1024}:data=offset",
       "whole vectors: rows that are centred among rows that are not, and their column sums"},
      {"backward:{bf16,f16}:24x{256,784}:data=offset:in_place={dx_over_dy,dx_over_source}",
       "the same over what they are made of"},
      {"forward:{bf16,f16}:5x{4096,4097,5000}:offset=1,3,2",
       "16-bit parameters that are read as they are given, at odd addresses"},
      {"{forward,backward}:{f32,bf16}:3x{5,96,769,5000}:data=beyond",
       "squares of x overflow, the variance does not"},
      {few + "4x{96,769,5000}:data=outlier", "one element holds nearly all of the variance"},
      {"forward:{f16,f16/f32}:4x100:eps={1e-8,1e-12}:data=zeros",
       "eps below f16's range must not become 0 (pytorch#41527)"},
      {few + "5x33:eps={0,1e-12,0.1,10}", "eps as a number of the compute type, large and small"},
      {few + "8x{5,64,769}:data=nan_row", "a NaN stays in its row of y and dx; dbeta has none"},
      {few + "8x{5,64,769}:data=inf_row", "an Inf gives NaN in its row, mean Inf"},
      {backward_few + "8x{5,64,769}:dy=nan_row",
       "a NaN in dy stays in its row of dx, its column of dbeta"},
      {backward_few + "8x40:dy=zeros", "gradients of nothing are exactly nothing"},
      {"{forward,backward}:" + kDTypes + ":4x{9,100}:gamma=zeros",
       "gamma = 0: dx from the formula, not clamped (apex)"},
      {forward_few + "4x100:gamma=large", "f16 y past 65504 is Inf, as one rounding makes it"},
      {forward_few + "4x100:beta=large", "beta far larger than the normalised values"},
      {all + "5x{7,100}:gamma=none", "no gamma (pytorch#101683)"},
      {all + "5x{7,100}:beta=none", "no beta"},
      {all + "5x{7,100}:gamma=none:beta=none", "affine=False (apex#403)"},
      {kPasses + ":{f32,f16/f32,bf16/f32}:{3x5000,5x70001}:gamma=none:beta=none",
       "the same where every chunk of a row reads the constants that stand for them"},
      {"forward:{f16/f32,f16/f32/f32,bf16/f32/f32}:3x{2047,2048,2049}:gamma=none:beta=none",
       "either side of where those constants end"},
      {kPasses + ":f64:3x5000:gamma=none:beta=none", "the same in f64"},
      // RMSNorm: the same loops with a mean of zero, so one row a path.
      {all + "5x{1,7,100}:op=rms_norm", "every dtype triple without mean and beta"},
      {few + "5x{33,255,256,257,768,1025,2049,4097,5000}:op=rms_norm",
       "rows that are taken four at a time, whole, in chunks and in segments"},
      {few + "4x{96,769,5000}:op=rms_norm:data={mean1000,ramp,outlier,constant,zeros}",
       "rows that LayerNorm would centre must not be"},
      {few + "8x{5,64,769}:op=rms_norm:data={nan_row,inf_row}", "a NaN stays in its row"},
      {f32_bf16 + "{300x64,37x760,3x70001}:op=rms_norm:offset=1,2,3",
       "row blocks, and threads that share a row, unaligned"},
      {few + "5x100:op=rms_norm:gamma=none:stride=101,103,107", "no parameters at all"},
      {"{backward,backward_from_y}:{f32,bf16}:{5x100,1x70000}:op=rms_norm:out={dx,dgamma}",
       "either gradient alone"},
      {"{forward:f32:5x4097:op=rms_norm:in_place=y_over_x,backward:f32:5x4097:op=rms_norm:in_place="
       "dx_over_dy}",
       "in place"},
      // Addresses and strides.
      {all + "5x100:offset=1", "every array one element off alignment (TransformerEngine#490)"},
      {few + "4x{16,67,256,1024}:offset={1,3,7,15}", "every phase against a vector"},
      {few + "4x{67,256,1024}:offset=1,2,3", "arrays out of phase with each other"},
      {f32_bf16 + "3x{64,1024}:offset={2,4,5,6,8,9,12,13}", "the remaining phases"},
      {f32_bf16 + "{1,2}x{9216,18432}:offset=1",
       "clusters in which several warps have no columns, off alignment"},
      {all + "5x100:stride=101,103,107", "gaps between rows, no two alike (vllm#28103)"},
      {few + "6x{1,8,67,256,769}:stride=1000,800,900:offset=1,0,3",
       "strided and unaligned at once; gaps must stay untouched"},
      {few + "64x100:stride=128", "padded rows whose every row is aligned"},
      {"{forward,backward}:{f32,bf16/f32}:300x{1,3}:stride=5,7,4",
       "tiny rows with gaps, many of them"},
      {"{forward,backward}:{f32,bf16/f32}:2x300001:stride=300002,300004,300001:offset=1",
       "long rows, strided and unaligned"},
      // In place.
      {"forward:{f64,f32,f16,bf16,bf16/f32}:{5x100,3x3001,3x4097,100x64}:in_place=y_over_x",
       "y over x: a row must be read before it is written"},
      {"backward:{f64,f32,f16,bf16,bf16/"
       "f32}:{5x100,3x3001,3x4097,100x64}:in_place={dx_over_dy,dx_over_source}",
       "dx over dy, dx over x"},
      {"backward_from_y:{f64,f32,f16,bf16,bf16/"
       "f32}:{5x100,3x4097}:in_place={dx_over_dy,dx_over_source}",
       "dx over dy, dx over y"},
      {"{forward:f32:1x1000000:in_place=y_over_x,backward:f32:1x1000000:in_place=dx_over_dy,"
       "backward:f32:"
       "1x1000000:in_place=dx_over_source}",
       "a row that threads share, in place: all must have read before any writes"},
      {"backward:{bf16,f16}:5x70001:in_place={dx_over_dy,dx_over_source}",
       "rows that threads share two at a time, in place"},
      {"{forward:f32:7x67:stride=70:offset=1:in_place=y_over_x,backward:f32:7x67:stride=70:offset="
       "1:in_"
       "place=dx_over_dy}",
       "in place, strided and unaligned"},
      // Subsets of outputs.
      {"forward:" + kFewDTypes + ":{5x100,1x70000}:out={none,mean,rstd,mean+rstd}",
       "what is not asked for is not written"},
      {"{backward,backward_from_y}:" + kFewDTypes + ":{5x100,70x9}:" + kSomeGradients,
       "every subset of gradients"},
      {"{backward,backward_from_y}:f32:{1x70000,5x5003}:" + kSomeGradients,
       "the same where threads share a row, and in rows of several chunks"},
      {backward_few + "5x100:out=none", "nothing asked, nothing written"},
  };
}

}  // namespace

const std::vector<TableRow>& problem_table() {
  static const std::vector<TableRow> table = [] {
    std::vector<TableRow> rows = make_table();
    for (const TableRow& row : family_problems()) rows.push_back(row);
    return rows;
  }();
  return table;
}

namespace {

/// Replaces the first {…} by each of its alternatives. Those inside it are replaced in turn.
void expand_text(const std::string& text, std::vector<std::string>* out) {
  const std::size_t open = text.find('{');
  if (open == std::string::npos) {
    out->push_back(text);
    return;
  }
  std::vector<std::string> alternatives(1);
  std::size_t at = open + 1;
  for (int depth = 1;; ++at) {
    depth += (text[at] == '{') - (text[at] == '}');
    if (depth == 0) break;
    if (depth == 1 && text[at] == ',') {
      alternatives.emplace_back();
    } else {
      alternatives.back() += text[at];
    }
  }
  for (const std::string& alternative : alternatives) {
    expand_text(text.substr(0, open) + alternative + text.substr(at + 1), out);
  }
}

}  // namespace

std::vector<Problem> expand(const TableRow& row) {
  std::vector<std::string> texts;
  expand_text(row.problems, &texts);
  std::vector<Problem> problems;
  for (const std::string& text : texts) {
    problems.push_back(parse(text));
  }
  return problems;
}

const std::vector<std::string>& dtype_triples() {
  static const std::vector<std::string> triples = [] {
    std::vector<std::string> texts;
    expand_text(kDTypes, &texts);
    expand_text("{f32/f16,f32/f16/f16,f32/bf16,f32/bf16/bf16}", &texts);
    return texts;
  }();
  return triples;
}

}  // namespace fusednorm::testing
