#include "frameworks/cli/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace bourse::cli {
namespace {

constexpr std::array<std::string_view, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d"};
constexpr double kRight = 24;

double place_on(const Axis& axis, double value) {
  if (axis.kind == Axis::Kind::kLogSeconds) {
    const double low = std::log10(std::max(axis.low, 1e-9)), high = std::log10(std::max(axis.high, 1e-9));
    return high > low ? (std::log10(std::max(value, axis.low)) - low) / (high - low) : 0;
  }
  return axis.high > axis.low ? (value - axis.low) / (axis.high - axis.low) : 0;
}

std::string number_text(double value) {
  if (std::abs(value) >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (std::abs(value) >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", value);
}

std::string seconds_text(double s) {
  if (s == 0) return "0";
  if (s < 60) return fmt::format("{:g} s", s);
  if (s < 3600) return fmt::format("{:g} min", s / 60);
  if (s < 86400) return fmt::format("{:g} h", s / 3600);
  return fmt::format("{:g} d", s / 86400);
}

double step_of(double span, std::size_t about, const std::vector<double>& nice) {
  const double raw = span / static_cast<double>(std::max<std::size_t>(about, 1));
  for (const double step : nice)
    if (step >= raw) return step;
  const double power = std::pow(10, std::floor(std::log10(std::max(raw, 1e-12))));
  for (const double times : {1.0, 2.0, 5.0, 10.0})
    if (times * power >= raw) return times * power;
  return 10 * power;
}

}  // namespace

std::string_view plot_colour(std::size_t index) { return kColours[index % kColours.size()]; }

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

std::vector<std::pair<double, std::string>> ticks(const Axis& axis, std::size_t about) {
  std::vector<std::pair<double, std::string>> out;
  if (axis.kind == Axis::Kind::kLogSeconds) {
    for (const double s : {1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0, 30 * 86400.0, 365 * 86400.0})
      if (s >= axis.low && s <= axis.high) out.emplace_back(s, seconds_text(s));
    return out;
  }
  static const std::vector<double> kClock = {1,     2,     5,          10,         15,         30,          60,         120,
                                             300,   600,   900,        1800,       3600,       7200,        10800,      21600,
                                             43200, 86400, 2 * 86400., 5 * 86400., 7 * 86400., 14 * 86400., 30 * 86400.};
  const double span = axis.high - axis.low;
  double step = axis.kind == Axis::Kind::kSeconds ? step_of(span, about, kClock) : step_of(span, about, {});
  if (axis.kind == Axis::Kind::kSeconds && span > 86400.0 * 30 * static_cast<double>(about))
    step = step_of(span / 86400, about, {}) * 86400;
  for (double v = std::ceil(axis.low / step) * step; v <= axis.high + step * 1e-9; v += step) {
    const double value = std::abs(v) < step * 1e-9 ? 0 : v;
    out.emplace_back(value, axis.kind == Axis::Kind::kSeconds   ? seconds_text(value)
                            : axis.kind == Axis::Kind::kPercent ? fmt::format("{:g} %", value * 100)
                                                                : number_text(value));
  }
  return out;
}

Panel::Panel(std::string title, Axis x, Axis y, double top, double height, double left)
    : title_(std::move(title)),
      x_(std::move(x)),
      y_(std::move(y)),
      top_(top),
      height_(height),
      left_(left),
      right_(kPlotWidth - kRight) {}

double Panel::x_of(double x) const { return left_ + std::clamp(place_on(x_, x), 0.0, 1.0) * (right_ - left_); }
double Panel::y_of(double y) const { return top_ + height_ - std::clamp(place_on(y_, y), 0.0, 1.0) * height_; }

void Panel::area(const Points& points, std::string_view colour, double opacity) {
  if (points.empty()) return;
  drawn_ += fmt::format("<path d=\"M{:.1f},{:.1f}", x_of(points.front().first), top_ + height_);
  for (const auto& [x, y] : points) drawn_ += fmt::format("L{:.1f},{:.1f}", x_of(x), y_of(y));
  drawn_ += fmt::format("L{:.1f},{:.1f}Z\" fill=\"{}\" fill-opacity=\"{:g}\"/>\n", x_of(points.back().first), top_ + height_,
                        colour, opacity);
}

void Panel::line(const Points& points, std::string_view colour, std::string_view dashes) {
  if (points.empty()) return;
  drawn_ += "<path d=\"";
  char how = 'M';
  for (const auto& [x, y] : points) {
    drawn_ += fmt::format("{}{:.1f},{:.1f}", how, x_of(x), y_of(y));
    how = 'L';
  }
  drawn_ += fmt::format("\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"{}/>\n", colour,
                        dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
}

void Panel::box(double x0, double y0, double x1, double y1, std::string_view colour, double opacity, std::string_view tip) {
  const double left = x_of(x0), right = x_of(x1), bottom = y_of(y0), top = y_of(y1);
  drawn_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"", left, top,
                        std::max(right - left, 0.3), std::max(bottom - top, 0.3), colour);
  if (opacity < 1) drawn_ += fmt::format(" fill-opacity=\"{:.2f}\"", opacity);
  drawn_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escape_xml(tip));
}

void Panel::level(double y, std::string_view text) {
  over_ +=
      fmt::format("<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#222\" stroke-dasharray=\"5,3\"/>\n",
                  left_, right_, y_of(y));
  over_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" class=\"n o\">{}</text>\n", right_ - 4, y_of(y) - 4,
                       escape_xml(text));
}

void Panel::note(double x, double y, std::string_view text) {
  over_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"n\">{}</text>\n", x_of(x) + 5, y_of(y) + 4, escape_xml(text));
}

void Panel::names_below() { numbers_ = false; }

void Panel::name_below(double x, std::string_view text) {
  over_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x_of(x), top_ + height_ + 16,
                       escape_xml(text));
}

void Panel::legend(const std::vector<std::pair<std::string, std::string>>& names) {
  std::size_t longest = 0;
  for (const auto& [colour, text] : names) longest = std::max(longest, text.size());
  const double x = right_ - 7.0 * static_cast<double>(longest) - 36;
  double y = bottom() - 18.0 * static_cast<double>(names.size()) - 8;
  for (const auto& [colour, text] : names) {
    over_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" fill=\"{}\"/>", x, y, colour);
    over_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"o\">{}</text>\n", x + 16, y + 10, escape_xml(text));
    y += 18;
  }
}

std::string Panel::text() const {
  std::string out = fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"h\">{}</text>\n", left_, top_ - 8, escape_xml(title_));
  out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#fafafa\"/>\n", left_, top_,
                     right_ - left_, height_);
  const auto xs = numbers_ ? ticks(x_, 8) : decltype(ticks(x_, 8)){},
             ys = ticks(y_, static_cast<std::size_t>(std::max(height_ / 45, 2.0)));
  for (const auto& [y, text] : ys)
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#e2e2e2\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        left_, right_, y_of(y), left_ - 6, y_of(y) + 4, escape_xml(text));
  for (const auto& [x, text] : xs)
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#e2e2e2\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x_of(x), top_, top_ + height_, top_ + height_ + 16, escape_xml(text));
  out += drawn_;
  out += fmt::format("<path d=\"M{0:.1f},{1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" stroke=\"#444\"/>\n", left_, top_, top_ + height_,
                     right_);
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", (left_ + right_) / 2,
                     top_ + height_ + 33, escape_xml(x_.label));
  out += fmt::format("<text transform=\"translate(16,{:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n", top_ + height_ / 2,
                     escape_xml(y_.label));
  return out + over_;
}

std::string plot_page(std::string_view title, std::string_view subtitle, const std::vector<Panel>& panels, double height) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
      "font-family=\"Helvetica,Arial,DejaVu Sans,sans-serif\" font-size=\"12\" fill=\"#222\">\n",
      kPlotWidth, height);
  out +=
      "<style>.h{font-size:13px;font-weight:bold}.t{font-size:17px;font-weight:bold}.n{font-size:11px;fill:#444}"
      ".o{stroke:#fff;stroke-width:3px;paint-order:stroke}</style>\n";
  out += fmt::format("<rect width=\"{:g}\" height=\"{:g}\" fill=\"#fff\"/>\n", kPlotWidth, height);
  out += fmt::format("<text x=\"16\" y=\"26\" class=\"t\">{}</text>\n<text x=\"16\" y=\"44\" class=\"n\">{}</text>\n",
                     escape_xml(title), escape_xml(subtitle));
  for (const Panel& panel : panels) out += panel.text();
  return out + "</svg>\n";
}

}  // namespace bourse::cli
