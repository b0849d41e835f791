// What nearly every file reads of the standard library, POSIX and fmt: compiled once for each set of flags and put in front of
// every file by the Makefile (see PCH there). A matter of time only: files include what they use, as if this did not exist.
// Nothing of ours is in here, so that a change of a header remakes what includes it and no more.
#ifndef BOURSE_COMMON_PRECOMPILED_H_
#define BOURSE_COMMON_PRECOMPILED_H_

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <compare>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#endif  // BOURSE_COMMON_PRECOMPILED_H_
