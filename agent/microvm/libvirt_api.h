// libvirt, opened at run time: hosts without it run every program of ours. Used by the probe and by bourse-microvm.
//
// The functions have the types of libvirt's own header, of which 9.0 is what we are built with; all of them are in libvirt since
// 1.2. No state beyond the library itself; a connection is the caller's.
#pragma once

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse {

struct Libvirt {
  static Result<Libvirt> open();  // kUnsupported: libvirt0 is not installed

  decltype(&virInitialize) initialize = nullptr;
  decltype(&virSetErrorFunc) set_error = nullptr;
  decltype(&virGetLastErrorMessage) last_error = nullptr;
  decltype(&virConnectOpen) connect = nullptr;
  decltype(&virConnectOpenReadOnly) connect_read_only = nullptr;
  decltype(&virConnectClose) disconnect = nullptr;
  decltype(&virConnectGetType) type = nullptr;
  decltype(&virConnectGetVersion) version = nullptr;
  decltype(&virConnectGetCapabilities) capabilities = nullptr;
  decltype(&virNodeGetInfo) node_info = nullptr;
  decltype(&virNodeGetCellsFreeMemory) cells_free = nullptr;
  decltype(&virDomainCreateXML) create = nullptr;
  decltype(&virDomainGetXMLDesc) description = nullptr;
  decltype(&virDomainResume) resume = nullptr;
  decltype(&virDomainDestroy) destroy = nullptr;
  decltype(&virDomainFree) release = nullptr;
  decltype(&virDomainGetName) name = nullptr;
  decltype(&virConnectListAllDomains) list = nullptr;

  [[nodiscard]] std::string why() const;  // of the call that just failed, on one line
};

// The inside of each <NAME ...>...</NAME> or <NAME .../> of a text that libvirt made (well-formed; elements of one name do not nest),
// with the text of its attributes. Not a parser for XML of other origin.
struct XmlElement {
  std::string attributes, inside;
  [[nodiscard]] std::string attribute(std::string_view name) const;
};
std::vector<XmlElement> xml_elements(std::string_view text, std::string_view name);
std::string xml_quoted(std::string_view text);  // for attributes and text

// kInvalid: not a URI, or another host's, with a sentence.
Result<> check_libvirt_uri(const std::string& uri);
// What a host can run, of virConnectGetCapabilities' text.
struct GuestArch {
  std::string arch;                   // "aarch64"
  std::string how;                    // best of "kvm" (or "xen", "hvf"), "emulated", "test"
  std::string machine;                // default machine type
  std::vector<std::string> machines;  // all, as canonical names, sorted
  std::int64_t cpus_max = 0;          // of the default machine
};
int rank_of(std::string_view how);  // better ones are higher
std::vector<GuestArch> guest_archs(const std::string& capabilities);

}  // namespace bourse
