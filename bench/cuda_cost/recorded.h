// Figures kept in the repository, so that a change that makes one worse is seen.
#pragma once

#include <string>
#include <vector>

#include "count.h"

namespace fusednorm::cost {

struct Row {
  Problem problem;
  Cost cost;
};

/// Counted when no problem is named: the shapes that peers were counted on, and the awkward
/// neighbours.
inline constexpr const char* recorded_problems[] = {
    "forward:f32:8192x1024",          "forward:f32:4096x4096",          "forward:bf16:8192x1024",
    "forward:bf16:4096x4096",         "forward:f32:2048x128",           "forward:f32:32x16384",
    "forward:f32:4096x768",           "forward:f32:8192x1023",          "forward:f32:8192x1025",
    "forward:f32:4096x4097",          "forward:f32:8192x1024:offset=1", "backward:f32:8192x1024",
    "backward:f32:4096x4096",         "backward:bf16:8192x1024",        "backward:bf16:4096x4096",
    "backward:f32:2048x128",          "backward:f32:32x16384",          "backward:f32:4096x768",
    "backward:f32:8192x1023",         "backward:f32:8192x1025",         "backward:f32:4096x4097",
    "backward:f32:8192x1024:offset=1"};

bool write_json(const std::string& path, const std::vector<Row>& rows, const Device& device);
bool write_recorded(const std::string& path, const std::vector<Row>& rows, const Device& device);

/// Prints what is worse than recorded, or missing; returns the exit code.
int compare(const std::string& path, const std::vector<Row>& rows, const Device& device);

}  // namespace fusednorm::cost
