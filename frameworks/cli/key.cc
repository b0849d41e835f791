// bourse key: who may connect to a cluster.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "common/core/ids.h"
#include "common/world/command_line.h"
#include "common/world/config.h"
#include "common/world/files.h"
#include "common/world/identity.h"
#include "common/world/transport.h"
#include "frameworks/cli/cluster.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/master_client.h"

namespace bourse::cli {
namespace {

const std::string kProgram = "bourse key";

std::string keys_directory() {
  const Places places = Places::find();
  const auto config = Config::read(access(places.config.c_str(), F_OK) == 0 ? places.config : "", {});
  const std::string named = config ? config->text("cluster", "keys") : "";
  return named.empty() ? places.keys : named;
}

Result<> check_identity(const std::string& identity) {
  const auto colon = identity.find(':');
  const std::string kind = identity.substr(0, colon);
  const std::vector<std::string> kinds = {"agent", "framework", "operator", "reader"};
  if (colon == std::string::npos || std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    const std::string near = nearest_word(kind, kinds);
    return Error(Code::kInvalid, "`" + identity +
                                     "' is not an identity: expected agent:NAME, framework:NAME, operator:NAME or reader:NAME" +
                                     (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  const std::string name = identity.substr(colon + 1);
  if ((kind == "agent" && name == "*") ||
      (valid_name(name) && name.find('/') == std::string::npos && name.find('=') == std::string::npos))
    return {};
  return Error(Code::kInvalid, "`" + name + "' is not a name that a key can have (letters, digits and ._+@:-)");
}

// Those who judge by the keys read them again: the supervisor of a local cluster passes the signal on to batch as well, and the master
// answers when it has done so. 0, or the status where it has not.
int tell_master() {
  const Places places = Places::find();
  const std::string dir = directory_of(places.config);
  const auto supervisor = supervisor_of(dir);
  if (!supervisor && access((dir + "/agents").c_str(), F_OK) == 0) return 0;  // a local cluster that is down: nobody to tell
  if (supervisor) (void)kill(*supervisor, SIGHUP);
  auto client = MasterClient::open();
  if (client) {
    const auto done = (*client)->act("reload", "", "keys were changed", {});
    if (done) {
      fmt::print("The master has read its keys again.\n");
      return 0;
    }
    if (done.error().code() != Code::kDenied && done.error().code() != Code::kTimeout) {
      fmt::print(stderr, "{}: the master has not taken the keys over: {}\n", kProgram, done.error().text());
      return 1;
    }
  }
  if (supervisor)
    fmt::print("The master has been told.\n");
  else
    fmt::print("Now have the master read its keys again: bourse reload, or SIGHUP to bourse-master.\n");
  return 0;
}

// "physics,chemistry/solid" as a key file has it.
Result<std::string> check_roles(const std::string& identity, const std::vector<std::string>& roles) {
  std::string text;
  if (!roles.empty() && !identity.starts_with("framework:"))
    return Error(Code::kInvalid, "only a framework acts for a role; " + identity + " does not");
  for (const std::string& role : roles) {
    if (!valid_name(role) || role.find(',') != std::string::npos || role.find('"') != std::string::npos)
      return Error(Code::kInvalid, "'" + role + "' is not a role's name");
    text += (text.empty() ? "" : ",") + role;
  }
  return text;
}

int new_key(const std::string& identity, const std::vector<std::string>& roles) {
  if (const auto good = check_identity(identity); !good) return complain(kProgram, good.error(), 2);
  const auto role_text = check_roles(identity, roles);
  if (!role_text) return complain(kProgram, role_text.error(), 2);
  const std::string path = keys_directory() + "/" + key_file_name(identity);
  const auto made = make_directories(directory_of(path), 0755);
  if (!made) return complain(kProgram, made.error());
  if (const auto written = write_key_files(path, make_key_pair(), *role_text); !written) return complain(kProgram, written.error());
  fmt::print("{}\n{}.pub\n", path, path);
  return tell_master();
}

int new_signing_key() {
  const std::string path = keys_directory() + "/" + std::string(identity::kSigningKeyName);
  if (const auto made = make_directories(directory_of(path), 0755); !made) return complain(kProgram, made.error());
  const identity::SigningKey key = identity::make_signing_key();
  if (const auto written = identity::write_signing_key(path, key); !written) return complain(kProgram, written.error());
  fmt::print("{}\nIn launcher.conf of each host, which must belong to root:\n  identity = signature\n  signer = {}\n", path,
             key.public_key);
  return 0;
}

int list_keys() {
  const std::string directory = keys_directory();
  std::vector<std::string> names;
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return complain(kProgram, errno_error(directory));
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    const bool signer = name == std::string(identity::kSigningKeyName) + ".pub";
    if (name.size() > 4 && name.ends_with(".pub") && !signer) names.push_back(name.substr(0, name.size() - 4));
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  std::size_t width = 8;
  for (const auto& name : names) width = std::max(width, name.size());
  fmt::print("{:<{}}  {:<40}  {:<9}  ROLES\n", "IDENTITY", width, "PUBLIC KEY", "SECRET");
  for (const std::string& name : names) {
    const auto key = read_public_key(directory + "/" + name + ".pub");
    std::string identity = name;
    std::replace(identity.begin(), identity.end(), '=', ':');
    const auto roles = read_key_roles(directory + "/" + name + ".pub");
    const std::string shown = roles && !roles->empty() ? *roles : identity.starts_with("framework:") ? "any" : "-";
    fmt::print("{:<{}}  {:<40}  {:<9}  {}\n", identity, width, key ? *key : "(" + key.error().text() + ")",
               access((directory + "/" + name).c_str(), F_OK) == 0 ? "here" : "elsewhere", shown);
  }
  return 0;
}

int allow_key(const std::string& identity, const std::string& file, const std::vector<std::string>& roles) {
  if (const auto good = check_identity(identity); !good) return complain(kProgram, good.error(), 2);
  const auto role_text = check_roles(identity, roles);
  if (!role_text) return complain(kProgram, role_text.error(), 2);
  const auto key = read_public_key(file);
  if (!key) return complain(kProgram, key.error());
  const std::string directory = keys_directory();
  const auto ring = Keyring::read(directory);
  if (!ring) return complain(kProgram, ring.error());
  if (const std::string other = ring->identity(*key); !other.empty() && other != identity)
    return complain(kProgram, Error(Code::kExists, "this key is allowed as " + other + " already; revoke that first"));
  const std::string path = directory + "/" + key_file_name(identity) + ".pub";
  if (access(path.c_str(), F_OK) == 0 && ring->identity(*key) != identity)
    return complain(kProgram, Error(Code::kExists, identity + " has another key already; revoke that first"));
  if (const auto written =
          write_file(path, "public = \"" + *key + "\"\n" + (role_text->empty() ? "" : "roles = \"" + *role_text + "\"\n"), 0644);
      !written)
    return complain(kProgram, written.error());
  fmt::print("{} is allowed.\n", identity);
  return tell_master();
}

int revoke_key(const std::string& identity) {
  if (const auto good = check_identity(identity); !good) return complain(kProgram, good.error(), 2);
  const std::string path = keys_directory() + "/" + key_file_name(identity);
  if (unlink((path + ".pub").c_str()) != 0) {
    if (errno == ENOENT) return complain(kProgram, Error(Code::kNotFound, identity + " has no key here; see bourse key list"));
    return complain(kProgram, errno_error("remove " + path + ".pub"));
  }
  unlink(path.c_str());  // the secret, where it was made here
  fmt::print("{} is revoked: what it sends from now on is dropped.\n", identity);
  return tell_master();
}

}  // namespace

int key_main(int argc, char** argv) {
  std::string identity, file;
  std::vector<std::string> roles;
  CommandLine app("Makes, lists, allows and revokes the keys by which agents, frameworks, operators and readers are known.",
                  kProgram);
  app.directory();
  CommandLine& make = app.command("new", "Make a pair of keys for IDENTITY and allow it");
  make.option("IDENTITY", identity, "agent:NAME, framework:NAME, operator:NAME or reader:NAME").required();
  make.option("--role", roles, "Of a framework: it may act for this role and those below it, and no other; may be given again")
      .one_each();
  CommandLine& list = app.command("list", "List the keys that are allowed");
  CommandLine& allow = app.command("allow", "Allow a key that was made elsewhere");
  allow.option("IDENTITY", identity, "Who it is").required();
  allow.option("FILE", file, "Its .pub file").required();
  allow.option("--role", roles, "As for new").one_each();
  CommandLine& sign = app.command("sign", "Make the key by which batch signs for its users, where there is no MUNGE");
  CommandLine& revoke = app.command("revoke", "Stop allowing IDENTITY, at once");
  revoke.option("IDENTITY", identity, "Who it is").required();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (make.chosen()) return new_key(identity, roles);
  if (sign.chosen()) return new_signing_key();
  if (list.chosen()) return list_keys();
  if (allow.chosen()) return allow_key(identity, file, roles);
  return revoke_key(identity);
}

}  // namespace bourse::cli
