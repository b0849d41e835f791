// Images of containers: a directory that is a root file system already, or an OCI image layout, whose layers are unpacked.
//
// Unpacking is done with the rights of the task's user, into a directory of that user: files belong to the user, device nodes and
// set-user-ID bits are left out. An image with an entry that would be written outside of the root ("../x", a path through a symbolic
// link; "/x" is taken as "x"), or with more than the limits allow, is refused as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/result.h"

namespace bourse::container {

constexpr std::size_t kLayersMax = 256;
constexpr std::size_t kJsonBytesMax = 4 * 1024 * 1024;

// A small archive can hold very much: nothing is believed about a size before it is written.
struct UnpackLimits {
  std::uint64_t bytes = std::uint64_t{32} << 30U;
  std::uint64_t entries = 4'000'000;
  std::uint64_t free_permille = 50;  // of the file system that stay free
};

// What the image's configuration says about running it; empty where it says nothing.
struct ImageConfig {
  std::vector<std::string> env, entrypoint, command;
  std::string directory;
};

struct Layer {
  std::string path, digest;
};

struct Layout {
  std::string manifest_digest;  // "sha256:HEX"
  std::vector<Layer> layers;    // in the order in which they are put on each other
  ImageConfig config;
};

[[nodiscard]] bool is_layout(const std::string& directory);
// The manifest of this tag, or the only one when `tag` is empty; of this machine's architecture where there are several.
Result<Layout> read_layout(const std::string& directory, const std::string& tag);
// Unpacks all layers into `root`, which exists and is empty. Digests are checked. Not thread-safe for one root.
Result<> unpack(const Layout& layout, const std::string& root, const UnpackLimits& limits = {});

}  // namespace bourse::container
