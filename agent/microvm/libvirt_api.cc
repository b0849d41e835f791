#include "agent/microvm/libvirt_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>

#include "common/core/ids.h"
#include "common/world/rooted.h"

namespace bourse {
namespace {

template <class Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<Libvirt> Libvirt::open() {
  void* library = dlopen("libvirt.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error(Code::kUnsupported, "libvirt.so.0 cannot be loaded; install libvirt0");
  Libvirt api;
  const bool all = bind(library, "virInitialize", api.initialize) && bind(library, "virSetErrorFunc", api.set_error) &&
                   bind(library, "virGetLastErrorMessage", api.last_error) && bind(library, "virConnectOpen", api.connect) &&
                   bind(library, "virConnectOpenReadOnly", api.connect_read_only) &&
                   bind(library, "virConnectClose", api.disconnect) && bind(library, "virConnectGetType", api.type) &&
                   bind(library, "virConnectGetVersion", api.version) &&
                   bind(library, "virConnectGetCapabilities", api.capabilities) && bind(library, "virNodeGetInfo", api.node_info) &&
                   bind(library, "virNodeGetCellsFreeMemory", api.cells_free) && bind(library, "virDomainCreateXML", api.create) &&
                   bind(library, "virDomainGetXMLDesc", api.description) && bind(library, "virDomainResume", api.resume) &&
                   bind(library, "virDomainDestroy", api.destroy) && bind(library, "virDomainFree", api.release) &&
                   bind(library, "virDomainGetName", api.name) && bind(library, "virConnectListAllDomains", api.list);
  if (!all) return Error(Code::kUnsupported, "libvirt.so.0 lacks functions that it must have");
  if (api.initialize() != 0) return Error(Code::kUnsupported, "libvirt: " + api.why());
  // By default it prints what it also returns.
  api.set_error(nullptr, [](void*, virErrorPtr) {});
  return api;
}

std::string Libvirt::why() const {
  std::string text = last_error();
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

std::string XmlElement::attribute(std::string_view name) const {
  for (std::size_t at = 0; (at = attributes.find(std::string(name) + "=", at)) != std::string::npos; ++at) {
    if (at > 0 && attributes[at - 1] != ' ' && attributes[at - 1] != '\n') continue;
    const std::size_t open = at + name.size() + 1;
    if (open >= attributes.size()) return {};
    const auto close = attributes.find(attributes[open], open + 1);
    return close == std::string::npos ? std::string() : attributes.substr(open + 1, close - open - 1);
  }
  return {};
}

std::vector<XmlElement> xml_elements(std::string_view text, std::string_view name) {
  std::vector<XmlElement> found;
  const std::string open = "<" + std::string(name), close = "</" + std::string(name) + ">";
  for (std::size_t at = 0; (at = text.find(open, at)) != std::string_view::npos;) {
    at += open.size();
    if (at >= text.size() || (text[at] != ' ' && text[at] != '>' && text[at] != '/' && text[at] != '\n')) continue;
    const auto end = text.find('>', at);
    if (end == std::string_view::npos) break;
    const bool closed = text[end - 1] == '/';
    XmlElement element;
    element.attributes = std::string(text.substr(at, end - at - (closed ? 1 : 0)));
    at = end + 1;
    if (!closed) {
      const auto last = text.find(close, at);
      if (last == std::string_view::npos) break;
      element.inside = std::string(text.substr(at, last - at));
      at = last + close.size();
    }
    found.push_back(std::move(element));
  }
  return found;
}

std::string xml_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&apos;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Result<> check_libvirt_uri(const std::string& uri) {
  const auto scheme = uri.find("://");
  if (scheme == std::string::npos || scheme == 0)
    return Error(Code::kInvalid, "`" + uri + "' is no libvirt URI such as qemu:///system");
  const auto plus = uri.substr(0, scheme).find('+');
  if (plus != std::string::npos && uri.substr(plus + 1, scheme - plus - 1) != "unix")
    return Error(Code::kInvalid, "`" + uri + "' goes over the network: an agent speaks for its own host only");
  if (scheme + 3 >= uri.size() || uri[scheme + 3] != '/')
    return Error(Code::kInvalid, "`" + uri + "' names another host: an agent speaks for its own only; write three slashes");
  return {};
}

int rank_of(std::string_view how) { return how == "emulated" ? 1 : how == "test" ? 0 : 2; }

std::vector<GuestArch> guest_archs(const std::string& capabilities) {
  std::map<std::string, GuestArch> by_arch;
  for (const XmlElement& guest : xml_elements(capabilities, "guest")) {
    for (const XmlElement& arch : xml_elements(guest.inside, "arch")) {
      GuestArch found;
      found.arch = arch.attribute("name");
      if (found.arch.empty() || !valid_name(found.arch)) continue;
      for (const XmlElement& domain : xml_elements(arch.inside, "domain")) {
        const std::string type = domain.attribute("type");
        const std::string how = type == "qemu" ? "emulated" : type;
        if (found.how.empty() || rank_of(how) > rank_of(found.how)) found.how = how;
      }
      for (const XmlElement& machine : xml_elements(arch.inside, "machine")) {
        const std::string canonical = machine.attribute("canonical");
        const std::string name = canonical.empty() ? machine.inside : canonical;
        // The first is the emulator's own choice.
        if (found.machine.empty()) {
          found.machine = name;
          found.cpus_max = whole_number(machine.attribute("maxCpus")).value_or(0);
        }
        found.machines.push_back(name);
      }
      std::sort(found.machines.begin(), found.machines.end());
      found.machines.erase(std::unique(found.machines.begin(), found.machines.end()), found.machines.end());
      auto [it, fresh] = by_arch.emplace(found.arch, found);
      if (!fresh && rank_of(found.how) > rank_of(it->second.how)) it->second = found;
    }
  }
  std::vector<GuestArch> out;
  for (auto& [name, guest] : by_arch) out.push_back(std::move(guest));
  return out;
}

}  // namespace bourse
