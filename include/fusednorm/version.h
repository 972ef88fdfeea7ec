// SPDX-License-Identifier: Apache-2.0
// The version, in its one place: CMake and the Python package read it from here.
#pragma once

/// "major.minor.patch"; docs/versioning.md says what each promises.
#define FUSEDNORM_VERSION "0.1.0"

namespace fusednorm {

/// The version of the headers that a program was compiled with.
inline constexpr const char* version = FUSEDNORM_VERSION;

}  // namespace fusednorm
