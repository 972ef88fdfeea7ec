// SPDX-License-Identifier: Apache-2.0
// What the arithmetic families share: one opcode (add, min, ...) has integer, floating-point and
// half forms.
#pragma once

#include "decoder.h"

namespace fusednorm::emulator {

bool decode_integer_arithmetic(Decoder& d, Form& form, Instruction& out);
void decode_half_arithmetic(Decoder& d, Form& form, Instruction& out);

// Handlers of the .rz, .rm and .rp forms; nullptr if there is none. Instruction::immediate holds
// the Rounding.
Handler pick_directed_rounding(const std::string& name, Type type, bool ftz, bool sat);

}  // namespace fusednorm::emulator
