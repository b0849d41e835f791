// A host's /proc, /sys and /dev as one text file, so that a fixture can be read in a review and has the links and modes that git or a
// file system would lose. One entry a line; # begins a comment:
//
//   /sys/x/y = text               a file; \n and \t in the text, and a line end at its end
//   /dev/kvm 0660 = text          the same with that mode
//   /sys/x/link -> ../../target   a symbolic link
//   /sys/x/empty/                 a directory
//   /proc/swaps <<                a file of the lines that follow, up to one that is a single dot
#pragma once

#include <string>

namespace bourse::tests {

// Unpacks a description below `directory`, which must be there. "": done; else what is wrong, with the line.
std::string unpack_tree(const std::string& description, const std::string& directory);

// A new directory with the tree of a file of tests/data in it, removed at the end. The path is that of the source tree, from which
// tests are run. A fault in the fixture ends the test program.
class Tree {
 public:
  explicit Tree(const std::string& file);
  Tree();  // empty
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void add(const std::string& description);  // over what is there
  void remove(const std::string& path);      // with everything below it

 private:
  std::string path_;
};

}  // namespace bourse::tests
