// What of fmt is no header, for a program that is linked without libfmt.so (Debian has no archive of it): that would bring
// libstdc++.so along, and to load the two costs `submit` more time than all it does itself.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
}  // namespace detail
FMT_END_NAMESPACE
