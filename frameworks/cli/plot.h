// A small chart in SVG: panels with axes, areas, lines, rectangles and a legend, for reports. Text only, no dependencies.
//
// Coordinates given to a Panel are data; it maps them. Colours are chosen to be told apart by people who do not see red and green apart
// (Okabe and Ito 2008).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bourse::cli {

constexpr double kPlotWidth = 960;

struct Axis {
  enum class Kind { kNumber, kSeconds, kPercent, kLogSeconds };
  std::string label;
  double low = 0, high = 1;
  Kind kind = Kind::kNumber;
};

std::string_view plot_colour(std::size_t index);
std::string escape_xml(std::string_view text);
// Round places for marks on an axis, with their texts.
std::vector<std::pair<double, std::string>> ticks(const Axis& axis, std::size_t about);

class Panel {
 public:
  Panel(std::string title, Axis x, Axis y, double top, double height, double left = 76);
  using Points = std::vector<std::pair<double, double>>;
  void area(const Points& points, std::string_view colour, double opacity = 1);  // down to the x axis
  void line(const Points& points, std::string_view colour, std::string_view dashes = "");
  void box(double x0, double y0, double x1, double y1, std::string_view colour, double opacity = 1, std::string_view tip = "");
  void level(double y, std::string_view text);                                 // a thin line across, named
  void note(double x, double y, std::string_view text);                        // at a place
  void legend(const std::vector<std::pair<std::string, std::string>>& names);  // colour, text; at the lower right
  void names_below();                                                          // no numbers on the x axis, but
  void name_below(double x, std::string_view text);
  [[nodiscard]] double x_of(double x) const;
  [[nodiscard]] double y_of(double y) const;
  [[nodiscard]] std::string text() const;  // axes over what was drawn
  [[nodiscard]] double bottom() const { return top_ + height_; }

 private:
  std::string title_;
  Axis x_, y_;
  double top_, height_, left_, right_;
  std::string drawn_, over_;
  bool numbers_ = true;
};

// Panels under each other, with a title and a line of explanation.
std::string plot_page(std::string_view title, std::string_view subtitle, const std::vector<Panel>& panels, double height);

}  // namespace bourse::cli
