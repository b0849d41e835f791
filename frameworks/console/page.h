// The dashboard: page.html as it was when this program was built, and the policy that lets a browser run nothing but its own lines.
#pragma once

#include <string>
#include <string_view>

namespace bourse::console {

std::string_view page_html();
// Content-Security-Policy for a page: the scripts and styles written in it are named by their hashes, and only its own server may be
// asked for anything.
std::string page_policy(std::string_view html);

}  // namespace bourse::console
