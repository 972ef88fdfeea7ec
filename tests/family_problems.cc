// SPDX-License-Identifier: Apache-2.0
// The rows of the problem table for what the family has beyond LayerNorm of packed x: rounding,
// gamma_offset, residual, parameter groups and two levels of rows, for both norms.
#include "problems.h"

namespace fusednorm::testing {
namespace {

using Rows = std::vector<TableRow>;

const std::string kPasses = "{forward,backward,backward_from_y}";
const std::string kBothNorms = ":op={layer_norm,rms_norm}";
const std::string kFewDTypes = "{f64,f32,f16,bf16/f32}";
const std::string kF32Bf16 = "{f32,bf16/f32}";
/// Every pair of x and parameters, y in either dtype.
const std::string kPairs =
    "{f64,f64/f32,f64/f32/f32,f32,f32/f16,f32/f16/f16,f32/bf16,f32/bf16/bf16,f16,f16/f32,f16/f32/"
    "f32,bf16,bf16/f32,bf16/f32/f32}";

/// Dtypes with the residuals that they admit.
struct ResidualDTypes {
  const char* dtypes;
  const char* residual;
};
constexpr ResidualDTypes kResiduals[] = {
    {"f64", "f64"},
    {"{f32,f32/bf16}", "f32"},
    {"{f16,f16/f32}", "f16"},
    {"{bf16,bf16/f32,bf16/f32/f32}", "bf16"},
    {"{f16,f16/f32,bf16,bf16/f32,bf16/f32/f32}", "f32"},
};

void add_dtypes_and_rounding(Rows* rows) {
  const Rows more = {
      {kPasses + ":{f32/f16,f32/f16/f16,f32/bf16,f32/bf16/bf16}:{5x{1,7,100},3x1025,3x4097}",
       "16-bit parameters beside f32 x: models that keep activations in f32"},
      {kPasses + ":" + kPairs + ":5x{1,7,100}:op=rms_norm:beta=normal",
       "RMSNorm with beta (quack, diffusers, Chameleon)"},
      {kPasses + ":" + kFewDTypes + ":{37x256,3x4097,5x70001}:op=rms_norm:beta=normal",
       "the same in every shape of work"},
      {"backward:{f32,bf16}:{5x100,70x9,1x70000}:op=rms_norm:beta=normal:out={dbeta,dgamma+dbeta}",
       "dbeta of RMSNorm alone"},
      {"forward:" + kPairs + ":5x{1,7,100}:rounding={via_x,via_param}" + kBothNorms +
           ":beta=normal",
       "every rounding of every dtype pair: 26 % of 16-bit outputs differ from rounding once"},
      {"forward:" + kPairs + ":5x100:rounding={via_x,via_param}:op=rms_norm",
       "the same without beta: Llama and 125 more, T5 and diffusers"},
      {"forward:" + kFewDTypes + ":{37x256,3x1000,3x4097,5x70001}:rounding={via_x,via_param}" +
           kBothNorms,
       "the same in every shape of work"},
      {"forward:{f32,f16,bf16,bf16/f32}:4x{96,769}:rounding={via_x,via_param}:data={mean1000,ramp,"
       "outlier,constant,nan_row,inf_row}",
       "xhat of rows that need more than one pass is rounded as well"},
      {"forward:{f16,bf16,f16/f32}:4x100:rounding={via_x,via_param}:gamma={none,zeros,large}",
       "products past 65504, and none at all"},
      {"forward:{f16,bf16,f16/f32}:4x100:rounding={via_x,via_param}:beta={none,large}",
       "no beta, and one that is far larger than the product"},
      {"backward_from_y:{f32,f16,bf16,bf16/f32,bf16/f32/f32}:5x{7,100}:rounding={via_x,via_param}" +
           kBothNorms,
       "from a y that was rounded more than once"},
      {"backward:{bf16,f16/f32}:5x100:rounding={via_x,via_param}",
       "rounding is straight-through: backward does not see it"},
  };
  rows->insert(rows->end(), more.begin(), more.end());
}

void add_numbers(Rows* rows) {
  const Rows more = {
      {"{forward,backward}:{f64,f32,f16,bf16/f32}:3x{1,5,96,769,5000}:data=brink:op=rms_norm",
       "squares that add up to a tenth of the largest f32; f16 rows of 65504 (onnxruntime#29034)"},
      {"forward:{f16,f16/f32}:4x{8,100,4097}:data=brink" + kBothNorms + ":rounding={once,via_x}",
       "f16 rows of 65504: sums beyond f16"},
      {"forward:{f64,f32,bf16/f32}:3x{1,5,96,769,5000}:data=denormal:op=rms_norm:eps=0",
       "squares that are subnormal: not flushed"},
      {"{forward,backward}:{f64,f32,bf16/f32}:3x{5,769,5000}:data=denormal:op=rms_norm",
       "and with eps nothing"},
      {"forward:{f32,bf16/f32}:3x{5,96,769}:data=denormal:eps=0", "the same variance of LayerNorm"},
      {kPasses + ":" + kPairs + ":5x{7,100}:gamma_offset=1" + kBothNorms,
       "weights around zero (Gemma, Qwen3-Next): added in the compute type, not in 16 bits"},
      {kPasses + ":" + kFewDTypes + ":{37x256,3x1000,3x4097,5x70001}:gamma_offset=1:op=rms_norm",
       "the same in every shape of work"},
      {kPasses + ":" + kFewDTypes + ":5x100:gamma_offset={1,-0.5}:gamma=zeros" + kBothNorms,
       "a gamma of 0 is the initial one: nothing divides by it"},
      {"{forward,backward}:" + kFewDTypes + ":5x100:gamma_offset={1,3}:gamma=minus_offset" +
           kBothNorms,
       "gamma + gamma_offset = 0"},
      {kPasses + ":{f32,bf16}:5x100:gamma_offset=1:gamma=none", "nothing to offset"},
      {"forward:{bf16,f16/f32}:5x100:gamma_offset=1:rounding={via_x,via_param}:op=rms_norm",
       "the offset belongs to the factor, which is not rounded"},
      // A head's worth of columns, many rows.
      {"{forward,backward}:" + kF32Bf16 + ":700x{64,96,128,192,256}:op=rms_norm",
       "QK norm: N = 64 to 512, rows = tokens * heads"},
      {"{forward,backward}:" + kF32Bf16 + ":{300x512,700x{1,3,127}}:op={layer_norm,rms_norm}",
       "the same at 512, and narrow widths that fill no vector"},
      {"{forward,backward}:bf16/f32:{100000x3,20000x128}:op=rms_norm", "more rows than that"},
  };
  rows->insert(rows->end(), more.begin(), more.end());
}

void add_layouts(Rows* rows) {
  const std::string few = kPasses + ":" + kFewDTypes + ":";
  const Rows more = {
      // q of a packed qkv with 6 query heads and 2 of k and v: a token is 10 heads.
      {few + "24x64:inner=6:outer=640" + kBothNorms, "q inside a packed qkv, no copy"},
      {few + "24x64:inner=6:outer=640,0,640:offset=1,3,5",
       "the same to packed rows, at odd addresses"},
      {few + "24x67:inner=6:stride=69,67,71:outer=700,0,720",
       "gaps on both levels, no two alike; gaps must stay untouched"},
      {few + "24x1:inner=6:stride=3:outer=20", "the same of single elements"},
      {few + "24x64:inner=4:stride=640:outer=64", "heads outside, tokens inside: transposed"},
      {few +
           "{6x100:inner=1:outer=130,6x100:inner=6:outer=7,6x100:inner=3,0x100:inner=3:outer=900}",
       "a level of one; packed groups; no rows"},
      {kPasses + ":" + kF32Bf16 +
           ":{1200x64:inner=12:outer=1500,60x1000:inner=4:stride=1003:outer="
           "9000,6x4097:inner=2:outer=9001:offset=1}",
       "the same in every shape of work"},
      {"{forward,backward}:{f32,bf16/f32}:4x70001:inner=2:outer=150001,140002:offset=1",
       "rows that threads share"},
      {"forward:{f32,bf16/f32}:24x64:inner=6:outer=640:in_place=y_over_x" + kBothNorms,
       "q and k in place: what servers call"},
      {"{backward:f32:24x64:inner=6:outer=640:in_place=dx_over_dy,backward:bf16:24x64:inner=6:"
       "outer="
       "640:in_place=dx_over_source}",
       "gradients in place"},
      // Groups.
      {few + "{24x64:groups=6,24x7:groups=2x3,24x100:groups=5x2,24x100:groups=1x3}" + kBothNorms,
       "weights per head, per sample, and as one table"},
      {few + "{3x100:groups=7,5x100:groups=2x9,0x7:groups=3}" + kBothNorms,
       "groups without rows: their gradients are zeros"},
      {few + "{5x100:groups=5,40x64:groups=40,5x1:groups=5}",
       "a row of parameters for each: dgamma is no sum at all"},
      {kPasses + ":" + kF32Bf16 +
           ":{1000x64:groups=12,1000x8:groups=3x100,4100x5:groups=2x1024,300x65:groups=2x150,"
           "5x4097:"
           "groups=2,5x70001:groups=2,130x1000:groups=3x7}:op={layer_norm,rms_norm}",
       "the same in every shape of work; a group's rows end inside a block of rows"},
      {few + "24x{5,64}:groups=3x2:data=nan_row", "a NaN stays in the gradients of its group"},
      {few + "24x64:groups=6:beta=none:gamma_offset=1", "tables with an offset, and one alone"},
      {kPasses + ":{f32,bf16}:24x64:groups=6:gamma=none", "a table of beta alone"},
      {"{backward,backward_from_y}:{f32,bf16/f32}:24x64:groups=4x3:out={dx,dgamma,dbeta,dgamma+"
       "dbeta}",
       "every subset of gradients"},
      {kPasses + ":{f32,bf16,bf16/f32}:24x64:groups=6:inner=6:outer=640:offset=1,2,3:op=rms_norm",
       "per-head weights inside a packed qkv"},
  };
  rows->insert(rows->end(), more.begin(), more.end());
}

/// Rows that every pair of dtype and residual dtype takes.
void add_residuals_of(const ResidualDTypes& pair, Rows* rows) {
  const std::string residual = std::string(":residual=") + pair.residual;
  const std::string all = kPasses + ":" + pair.dtypes + ":";
  const std::string forward = std::string("forward:") + pair.dtypes + ":";
  const std::string backward = std::string("{backward,backward_from_y}:") + pair.dtypes + ":";
  const Rows more = {
      {all + "5x{1,7,100}" + residual + kBothNorms, "x + residual: the stored sum is normalised"},
      {all + "{37x256,3x1000,3x4097}" + residual + ":op=rms_norm", "in every shape of work"},
      {forward + "5x100" + residual + ":rounding={via_x,via_param}" + kBothNorms,
       "via_x rounds to the dtype of the sum"},
      {backward + "5x{7,100}" + residual + ":grads={dy,ds}" + kBothNorms,
       "either gradient alone: without dy, dx is ds and dgamma is zero"},
      {all + "5x100" + residual + ":offset=1,2,3,5,7", "unaligned, out of phase with each other"},
      {all + "6x67" + residual + ":stride=101,103,107,109,113:offset=1,0,3", "gaps between rows"},
  };
  rows->insert(rows->end(), more.begin(), more.end());
}

void add_residuals(Rows* rows) {
  for (const ResidualDTypes& pair : kResiduals) add_residuals_of(pair, rows);
  const Rows more = {
      {kPasses + ":bf16/f32:{1x300001,5x70001,700x64,3000x3}:residual={f32,bf16}" + kBothNorms,
       "rows that threads share, and many rows"},
      {kPasses + ":f32:{1x300001,5x70001,700x64,3000x3}:residual=f32", "the same in f32"},
      {"{forward,backward}:{f32,bf16/f32}:2x40000:residual=f32:op=rms_norm:gamma_offset=1",
       "rows that fit no registers"},
      {"forward:bf16/f32:2x40000:residual=bf16:rounding={via_x,via_param}", "and their roundings"},
      {kPasses +
           ":{f32,bf16/f32}:4x{96,769}:residual=f32:data={mean1000,constant,zeros,outlier,tiny,"
           "nan_row,inf_row}",
       "the patterns of data, in the sum"},
      {"forward:{f32,bf16,f16}:3x{5,769}:residual=f32:data=brink:op=rms_norm", "large sums"},
      {"{backward,backward_from_y}:{f32,bf16/f32}:8x{5,64}:residual=f32:dy=nan_row",
       "a NaN in dy and ds stays in its row"},
      {"{forward:f32:{5x100,3x4097,1x70000}:residual=f32,forward:bf16/f32:{5x100,3x4097}:residual="
       "bf16}:in_place={sum_over_residual,sum_over_x,y_over_x,y_over_x+sum_over_residual}",
       "in place: vLLM's x := y, residual := sum"},
      {"forward:{bf16,f16/f32}:{5x100,3x4097}:residual=f32:in_place={sum_over_residual,y_over_x,y_"
       "over_x+sum_over_residual}",
       "the same beside an f32 residual"},
      {"{backward:f32:{5x100,3x4097,1x70000}:residual=f32,backward:bf16/"
       "f32:{5x100,3x4097}:residual="
       "bf16}:in_place={dx_over_dy,dx_over_source,dx_over_ds}",
       "dx over what it is made of"},
      {"{backward,backward_from_y}:bf16/f32:{5x100,3x4097}:residual=f32:in_place={dx_over_dy,"
       "dresidual_over_ds}",
       "f32 residual: dresidual over ds"},
      {"backward:{f16,bf16/f32}:{5x100,3x4097}:residual=f32:in_place=dresidual_over_source",
       "dresidual over the sum"},
      {"backward:bf16:{5x100,70x9}:residual=f32:out={none,dx,dresidual,dgamma,dresidual+dbeta,dx+"
       "dgamma,dx+dresidual}:grads={dy,ds,dy+ds}",
       "every kind of subset"},
      {kPasses +
           ":{bf16/f32,bf16}:24x64:residual={f32,bf16}:inner=6:outer=640,650,660,670,680:"
           "groups=6:gamma_offset=1" +
           kBothNorms,
       "all of it at once"},
      {"forward:{bf16/f32,bf16}:24x64:residual=f32:inner=6:outer=640:groups=6:gamma_offset=1:"
       "rounding={via_x,via_param}:offset=1,2,3,5",
       "and with each rounding"},
      {kPasses + ":{f32,bf16}:{0x7,3x0}:residual=f32:out=none", "empty"},
      {"{backward,backward_from_y}:{f32,bf16}:0x7:residual=f32:grads={dy,ds,dy+ds}",
       "zero rows: dgamma and dbeta are zeros"},
  };
  rows->insert(rows->end(), more.begin(), more.end());
}

}  // namespace

std::vector<TableRow> family_problems() {
  Rows rows;
  add_dtypes_and_rounding(&rows);
  add_numbers(&rows);
  add_layouts(&rows);
  add_residuals(&rows);
  return rows;
}

}  // namespace fusednorm::testing
