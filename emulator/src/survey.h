// SPDX-License-Identifier: Apache-2.0
// Lists the instruction forms that the decoder accepts, for the test that each of them is tested.
#pragma once

#include <set>
#include <string>

namespace fusednorm::emulator {

// "opcode modifiers types" (modifiers sorted), and "opcode ~modifier" for each piece of advice that
// is accepted and changes nothing.
std::set<std::string> accepted_forms();

// Those that one opcode with its modifiers ("ld.global.nc.v4.f32") is an instance of; empty if the
// decoder refuses it.
std::set<std::string> forms_of(const std::string& instruction);

}  // namespace fusednorm::emulator
