// SPDX-License-Identifier: Apache-2.0
// Reads the shapes that are compiled in.
#include "problems/shapes.h"

#include <algorithm>
#include <sstream>

#include "shapes_text.h"

namespace fusednorm::problems {
namespace {

std::vector<Shape> read() {
  std::vector<Shape> shapes;
  std::istringstream lines(shapes_text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string name, rows, cols, lists;
    std::getline(fields, name, ',');
    std::getline(fields, rows, ',');
    std::getline(fields, cols, ',');
    std::getline(fields, lists, ',');
    Shape shape{name, std::stoll(rows), std::stoll(cols), {}};
    std::istringstream words(lists);
    for (std::string word; std::getline(words, word, '+');) shape.lists.push_back(word);
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace

const std::vector<Shape>& listed_shapes() {
  static const std::vector<Shape> shapes = read();
  return shapes;
}

std::vector<Shape> listed_shapes(const std::string& list) {
  std::vector<Shape> found;
  for (const Shape& shape : listed_shapes()) {
    if (std::count(shape.lists.begin(), shape.lists.end(), list) > 0) found.push_back(shape);
  }
  return found;
}

}  // namespace fusednorm::problems
