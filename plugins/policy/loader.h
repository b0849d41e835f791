// Brings a policy's plugin into a catalog. For main programs; does I/O.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/world/plugin.h"
#include "plugins/policy/catalog.h"

namespace bourse::policy {

// What main programs keep for the life of the process.
class Loader {
 public:
  Loader(std::string program, std::string copies) : host_{std::move(program), std::move(copies)} {}

  // "name[:key=value,...]" or "/path/file.so[:key=value,...]": the plugin is loaded (again, where the file has changed), its interface and
  // the parameters are tried. The error says what is wrong, and nothing in force has changed.
  Result<Choice> take(const std::string& spec_text);
  [[nodiscard]] const Catalog& catalog() const { return catalog_; }

 private:
  PluginHost host_;
  Catalog catalog_;
  std::vector<std::unique_ptr<Plugin>> plugins_;  // never unloaded
};

}  // namespace bourse::policy
