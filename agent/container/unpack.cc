#include "agent/container/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "common/core/hooks.h"

namespace bourse::container {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kIndexDepthMax = 2;

Error broken(const std::string& where, const std::string& what) { return {Code::kCorrupt, where + ": " + what}; }

Result<json> read_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error(Code::kNotFound, path + " cannot be read");
  std::string text(kJsonBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kJsonBytesMax) return broken(path, "larger than 4 MiB");
  json out = json::parse(text, nullptr, false);
  if (out.is_discarded() || !out.is_object()) return broken(path, "is not a JSON object");
  return out;
}

std::string text_of(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}
std::vector<std::string> texts_of(const json& object, const char* key) {
  std::vector<std::string> out;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return out;
  for (const json& each : *it)
    if (each.is_string()) out.push_back(each.get<std::string>());
  return out;
}

// blobs/sha256/HEX; a digest is 64 hexadecimal digits, so it cannot lead elsewhere.
Result<std::string> blob(const std::string& directory, const std::string& digest) {
  constexpr std::string_view kAlgorithm = "sha256:";
  const bool known = digest.compare(0, kAlgorithm.size(), kAlgorithm) == 0 && digest.size() == kAlgorithm.size() + 64 &&
                     digest.find_first_not_of("0123456789abcdef", kAlgorithm.size()) == std::string::npos;
  if (!known) return broken(directory, "\"" + digest.substr(0, 100) + "\" is not a sha256 digest");
  return directory + "/blobs/sha256/" + digest.substr(kAlgorithm.size());
}

struct Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Result<> check_digest(const std::string& path, const std::string& digest) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno_error("open " + path);
  struct stat st {};
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return broken(path, "is not a file");
  }
  Context context;
  EVP_DigestInit_ex(context.evp, EVP_sha256(), nullptr);
  std::vector<char> bytes(1 << 20);
  ssize_t n = 0;
  while ((n = read(fd, bytes.data(), bytes.size())) > 0) EVP_DigestUpdate(context.evp, bytes.data(), static_cast<std::size_t>(n));
  close(fd);
  if (n < 0) return errno_error("read " + path);
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.evp, sum, &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[sum[i] >> 4U];
    hex += kDigits[sum[i] & 15U];
  }
  return "sha256:" + hex == digest ? Result<>() : broken(path, "its contents do not have the digest " + digest);
}

std::string machine() {
  struct utsname name {};
  uname(&name);
  const std::string m = name.machine;
  return m == "x86_64" ? "amd64" : m == "aarch64" ? "arm64" : m;
}

// "a/b" of "./a/b", "/a/b", "a/b/". kDenied: it leads out, or is longer than the kernel follows in one go.
Result<std::string> inner_path(const std::string& root, const std::string& name) {
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    if (part == ".." && !hooks::mutant("container.paths_escape"))
      return Error(Code::kDenied, "entry \"" + name.substr(0, 200) + "\" leads out of the image");
    if (!part.empty() && part != ".") out += (out.empty() ? "" : "/") + part;
    at = end + 1;
  }
  if (root.size() + 1 + out.size() >= PATH_MAX)
    return Error(Code::kDenied, "entry \"" + name.substr(0, 200) + "...\" has a longer path than a system call takes");
  return out;
}

// Is a directory on the way a symbolic link? Then what is written would land wherever that points to.
Result<> no_link_on_the_way(const std::string& root, const std::string& path) {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    struct stat st {};
    const std::string parent = root + "/" + path.substr(0, at);
    if (lstat(parent.c_str(), &st) == 0 && S_ISLNK(st.st_mode) && !hooks::mutant("container.paths_escape"))
      return Error(Code::kDenied, "entry \"" + path.substr(0, 200) + "\" leads through the symbolic link " + path.substr(0, at));
  }
  return {};
}

struct Closer {
  void operator()(struct archive* a) const { archive_free(a); }
};
using Archive = std::unique_ptr<struct archive, Closer>;

Error archive_error(const std::string& what, struct archive* a) {
  const char* text = archive_error_string(a);
  return {Code::kCorrupt, what + ": " + (text != nullptr ? text : "cannot be read")};
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

class Unpacker {
 public:
  Unpacker(std::string root, const UnpackLimits& limits) : root_(std::move(root)), limits_(limits) {}
  Result<> layer(const Layer& layer);

 private:
  Result<> entry(struct archive* from, struct archive* to, struct archive_entry* entry);
  Result<bool> whiteout(const std::string& path);
  void take_away(const std::string& path);
  Result<> make_way(const std::string& path, bool directory);
  Result<> copy(struct archive* from, struct archive* to, std::uint64_t claimed);
  Result<> charge(std::uint64_t bytes);
  [[nodiscard]] bool of_this_layer(const std::string& path) const;

  std::string root_;
  UnpackLimits limits_;
  std::uint64_t bytes_ = 0, entries_ = 0, looked_at_ = 0;
  std::set<std::string> made_;  // by the layer at hand
};

// Sparse files count as what they would be, since a copy would be it.
Result<> Unpacker::charge(std::uint64_t bytes) {
  constexpr std::uint64_t kLookEvery = 16 << 20;
  if (hooks::mutant("container.no_size_limit")) return {};
  if (bytes > limits_.bytes - bytes_)
    return Error(Code::kLimit, "unpacked it would be larger than " + mebibytes(limits_.bytes) + " (agent.image_max)");
  bytes_ += bytes;
  if (bytes_ - looked_at_ < kLookEvery) return {};
  looked_at_ = bytes_;
  struct statvfs disk {};
  if (statvfs(root_.c_str(), &disk) == 0 && disk.f_bavail < disk.f_blocks / 1000 * limits_.free_permille)
    return Error(Code::kLimit,
                 "the file system of " + root_ + " has less than " + std::to_string(limits_.free_permille / 10) + " % left free");
  return {};
}

bool Unpacker::of_this_layer(const std::string& path) const {
  const auto it = made_.lower_bound(path);
  return it != made_.end() && it->compare(0, path.size(), path) == 0 && (it->size() == path.size() || (*it)[path.size()] == '/');
}

// What lower layers put there; what this one has put there stays, wherever in the layer the whiteout stands.
void Unpacker::take_away(const std::string& path) {
  std::error_code error;
  const std::string full = root_ + "/" + path;
  if (!of_this_layer(path)) {
    fs::remove_all(full, error);
    return;
  }
  struct stat st {};
  if (lstat(full.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return;
  std::vector<std::string> names;
  for (const auto& each : fs::directory_iterator(full, error)) names.push_back(each.path().filename());
  for (const std::string& name : names) take_away(path + "/" + name);
}

Result<bool> Unpacker::whiteout(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string name = path.substr(directory.size());
  if (name.compare(0, 4, ".wh.") != 0) return false;
  if (name == ".wh..wh..opq") {
    std::error_code error;
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(root_ + "/" + directory, error)) names.push_back(each.path().filename());
    for (const std::string& each : names) take_away(directory + each);
  } else if (name.compare(0, 8, ".wh..wh.") != 0) {
    const std::string victim = name.substr(4);
    if (victim.empty() || victim == "." || victim == "..")
      return Error(Code::kDenied, "whiteout \"" + path.substr(0, 200) + "\" leads out of the image");
    take_away(directory + victim);
  }
  return true;
}

// What is there already goes, unless both are directories: a link is never written through, and never changed in its stead.
Result<> Unpacker::make_way(const std::string& path, bool directory) {
  const std::string full = root_ + "/" + path;
  struct stat st {};
  if (lstat(full.c_str(), &st) != 0 || (directory && S_ISDIR(st.st_mode))) return {};
  std::error_code error;
  fs::remove_all(full, error);
  if (error) return Error(Code::kIo, "\"" + path.substr(0, 200) + "\" cannot be replaced: " + error.message());
  return {};
}

Result<> Unpacker::copy(struct archive* from, struct archive* to, std::uint64_t claimed) {
  const void* bytes = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  std::uint64_t charged = claimed;
  for (;;) {
    const int got = archive_read_data_block(from, &bytes, &size, &offset);
    if (got == ARCHIVE_EOF) return {};
    if (got < ARCHIVE_WARN) return archive_error("read", from);
    const std::uint64_t end = static_cast<std::uint64_t>(offset) + size;
    if (end > charged) BOURSE_TRY(charge(end - charged));
    charged = std::max(charged, end);
    if (archive_write_data_block(to, bytes, size, offset) < ARCHIVE_WARN) return archive_error("write", to);
  }
}

Result<> Unpacker::entry(struct archive* from, struct archive* to, struct archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) return Error(Code::kCorrupt, "an entry without a name");
  if (++entries_ > limits_.entries) return Error(Code::kLimit, "it has more than " + std::to_string(limits_.entries) + " files");
  const std::string path = BOURSE_TRY(inner_path(root_, name));
  BOURSE_TRY(no_link_on_the_way(root_, path));
  if (path.empty() || BOURSE_TRY(whiteout(path))) return {};
  const auto type = archive_entry_filetype(entry);
  const char* hard = archive_entry_hardlink(entry);
  if (hard == nullptr && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK && type != AE_IFIFO)
    return {};  // devices: the runtime makes its /dev
  archive_entry_set_pathname(entry, (root_ + "/" + path).c_str());
  if (hard != nullptr) {
    const std::string inner = BOURSE_TRY(inner_path(root_, hard));
    BOURSE_TRY(no_link_on_the_way(root_, inner));
    if (inner == path) return {};
    archive_entry_set_hardlink(entry, (root_ + "/" + inner).c_str());
    archive_entry_unset_size(entry);  // else it would be opened for writing, wherever it leads
  }
  BOURSE_TRY(make_way(path, hard == nullptr && type == AE_IFDIR));
  made_.insert(path);
  const bool file = hard == nullptr && type == AE_IFREG;
  const std::uint64_t claimed = file && archive_entry_size(entry) > 0 ? static_cast<std::uint64_t>(archive_entry_size(entry)) : 0;
  BOURSE_TRY(charge(claimed));
  // Whoever unpacks can enter and clean up what was unpacked.
  const auto least = type == AE_IFDIR ? 0700U : type == AE_IFREG ? 0400U : 0U;
  archive_entry_set_perm(entry, (archive_entry_perm(entry) & 0777U) | least);
  if (archive_write_header(to, entry) < ARCHIVE_WARN) return archive_error(path, to);
  if (file) BOURSE_TRY(copy(from, to, claimed));
  if (archive_write_finish_entry(to) < ARCHIVE_WARN) return archive_error(path, to);
  return {};
}

Result<> Unpacker::layer(const Layer& layer) {
  made_.clear();
  const Archive in(archive_read_new());
  // Not "all": libarchive runs programs for some.
  archive_read_support_filter_gzip(in.get());
  archive_read_support_filter_zstd(in.get());
  archive_read_support_filter_bzip2(in.get());
  archive_read_support_filter_xz(in.get());
  archive_read_support_format_tar(in.get());
  if (archive_read_open_filename(in.get(), layer.path.c_str(), 1 << 16) != ARCHIVE_OK) return archive_error(layer.path, in.get());
  const Archive out(archive_write_disk_new());
  archive_write_disk_set_options(out.get(), ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_UNLINK);
  struct archive_entry* entry = nullptr;
  for (;;) {
    const int next = archive_read_next_header(in.get(), &entry);
    if (next == ARCHIVE_EOF) return {};
    if (next < ARCHIVE_WARN) return archive_error(layer.path, in.get());
    BOURSE_TRY(this->entry(in.get(), out.get(), entry));
  }
}

// The digest of what has this tag and is for this machine.
Result<std::string> choose(const std::string& directory, const json& index, const std::string& tag) {
  const auto list = index.find("manifests");
  if (list == index.end() || !list->is_array()) return broken(directory + "/index.json", "lists no manifests");
  std::vector<std::string> found, tags;
  for (const json& each : *list) {
    if (!each.is_object()) continue;
    const auto notes = each.find("annotations");
    const std::string name = notes != each.end() && notes->is_object() ? text_of(*notes, "org.opencontainers.image.ref.name") : "";
    const auto platform = each.find("platform");
    const std::string arch = platform != each.end() && platform->is_object() ? text_of(*platform, "architecture") : "";
    if (!name.empty()) tags.push_back(name);
    if ((tag.empty() || name == tag) && (arch.empty() || arch == machine())) found.push_back(text_of(each, "digest"));
  }
  if (found.size() == 1) return found.front();
  std::string names;
  for (const auto& name : tags) names += (names.empty() ? "" : ", ") + name;
  const std::string why =
      !found.empty() ? "has several images" : "has no image " + (tag.empty() ? "for " + machine() : "`" + tag + "'");
  return Error(Code::kNotFound, directory + " " + why + "; its tags are: " + names);
}

}  // namespace

bool is_layout(const std::string& directory) { return access((directory + "/oci-layout").c_str(), F_OK) == 0; }

Result<Layout> read_layout(const std::string& directory, const std::string& tag) {
  const json index = BOURSE_TRY(read_json(directory + "/index.json"));
  Layout layout;
  layout.manifest_digest = BOURSE_TRY(choose(directory, index, tag));
  std::string manifest_path = BOURSE_TRY(blob(directory, layout.manifest_digest));
  BOURSE_TRY(check_digest(manifest_path, layout.manifest_digest));
  json manifest = BOURSE_TRY(read_json(manifest_path));
  for (int depth = 0; depth < kIndexDepthMax && manifest.contains("manifests"); ++depth) {  // one for each architecture
    layout.manifest_digest = BOURSE_TRY(choose(directory, manifest, ""));
    manifest_path = BOURSE_TRY(blob(directory, layout.manifest_digest));
    BOURSE_TRY(check_digest(manifest_path, layout.manifest_digest));
    manifest = BOURSE_TRY(read_json(manifest_path));
  }
  const auto layers = manifest.find("layers");
  if (layers == manifest.end() || !layers->is_array() || layers->size() > kLayersMax)
    return broken(manifest_path, "has no layers, or more than " + std::to_string(kLayersMax));
  for (const json& each : *layers) {
    const std::string digest = each.is_object() ? text_of(each, "digest") : "";
    layout.layers.push_back({BOURSE_TRY(blob(directory, digest)), digest});
  }
  if (const auto config = manifest.find("config"); config != manifest.end() && config->is_object()) {
    const std::string digest = text_of(*config, "digest"), path = BOURSE_TRY(blob(directory, digest));
    BOURSE_TRY(check_digest(path, digest));
    const json document = BOURSE_TRY(read_json(path));
    if (const auto c = document.find("config"); c != document.end() && c->is_object())
      layout.config = {texts_of(*c, "Env"), texts_of(*c, "Entrypoint"), texts_of(*c, "Cmd"), text_of(*c, "WorkingDir")};
  }
  return layout;
}

Result<> unpack(const Layout& layout, const std::string& root, const UnpackLimits& limits) {
  Unpacker unpacker(root, limits);
  for (const Layer& layer : layout.layers) {
    BOURSE_TRY(check_digest(layer.path, layer.digest));
    auto done = unpacker.layer(layer);
    if (!done) return std::move(done).error().add("layer " + layer.digest);
  }
  return {};
}

}  // namespace bourse::container
