#include "frameworks/batch/jobs.h"

namespace bourse::batch {

Job& Jobs::add(JobId id, std::string spec_bytes, const JobSpec& spec, const BatchOptions& options) {
  auto it = specs_.find(spec_bytes);
  if (it == specs_.end()) {
    auto entry = std::make_unique<SpecEntry>();
    entry->bytes = std::move(spec_bytes);
    entry->bytes.shrink_to_fit();
    entry->uid = static_cast<std::uint32_t>(spec.uid);
    entry->nice = spec.nice;
    entry->requeue = spec.requeue.value_or(true);
    entry->begin = spec.begin;
    entry->mail = parse_mail_types(spec.mail_type) ? *parse_mail_types(spec.mail_type) : MailSet{0};
    if (!spec.reservation.empty()) entry->reservation = std::make_unique<const std::string>(spec.reservation);
    entry->limit = time_limit_of(spec, options);
    const std::string_view key = entry->bytes;
    it = specs_.emplace(key, std::move(entry)).first;
  }
  Job& job = jobs_[id];
  job.id = id;
  job.spec = it->second.get();
  ++job.spec->refs;
  return job;
}

void Jobs::reconsider(const BatchOptions& options) {
  for (auto& [key, entry] : specs_) {
    if (auto spec = decode_spec(entry->bytes); spec) entry->limit = time_limit_of(*spec, options);
    entry->layout_epoch = 0;
  }
}

void Jobs::erase(JobId id) {
  auto it = jobs_.find(id);
  if (it == jobs_.end()) return;
  Job& job = it->second;
  unshare(job.script);
  unshare(job.env);
  if (--job.spec->refs == 0) {
    if (decoded_.entry == job.spec) decoded_ = {};
    auto node = specs_.extract(specs_.find(job.spec->bytes));  // extract: the key points into the entry
  }
  jobs_.erase(it);
}

Job* Jobs::find(JobId id) {
  auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

Job* Jobs::find_number(std::uint64_t number, std::optional<std::uint64_t>& rank) {
  rank.reset();
  auto it = jobs_.upper_bound(JobId(number));
  if (it == jobs_.begin()) return nullptr;
  Job& job = std::prev(it)->second;
  if (job.id.value == number) return &job;
  if (number - job.id.value >= job.ids()) return nullptr;
  rank = number - job.id.value - 1;
  return &job;
}

SharedBlob* Jobs::share(const std::string& digest, std::string_view bytes) {
  if (SharedBlob* known = share_known(digest)) return known;
  auto blob = std::make_unique<SharedBlob>();
  blob->digest = digest;
  blob->bytes = bytes;
  blob->refs = 1;
  SharedBlob* out = blob.get();
  blobs_.emplace(std::string_view(out->digest), std::move(blob));
  return out;
}

SharedBlob* Jobs::share_known(const std::string& digest) {
  auto it = blobs_.find(digest);
  if (it == blobs_.end()) return nullptr;
  ++it->second->refs;
  return it->second.get();
}

void Jobs::unshare(SharedBlob* blob) {
  if (blob == nullptr || --blob->refs > 0) return;
  if (decoded_.script == blob || decoded_.env == blob) decoded_ = {};
  auto node = blobs_.extract(blobs_.find(blob->digest));
}

const JobSpec& Jobs::full_spec(const Job& job) const {
  if (decoded_.entry == job.spec && decoded_.script == job.script && decoded_.env == job.env) return decoded_.spec;
  auto spec = decode_spec(job.spec->bytes);
  BOURSE_ASSERT(static_cast<bool>(spec), std::to_string(job.id.value));
  if (job.script != nullptr) spec->script = job.script->bytes;
  if (job.env != nullptr) {
    std::string_view rest = job.env->bytes;
    while (!rest.empty()) {
      const auto end = rest.find('\0');
      spec->env.emplace_back(rest.substr(0, end));
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
  }
  decoded_ = {job.spec, job.script, job.env, *std::move(spec)};
  return decoded_.spec;
}

std::uint32_t LayoutPool::intern(Layout layout) {
  const std::string key = layout.key + "|" + std::to_string(layout.need.nodes) + "|" + std::to_string(layout.tasks) + "|" +
                          std::to_string(layout.cpus_per_task) + "|" + std::to_string(layout.tasks_per_node) + "|" +
                          std::to_string(layout.depends_on_agents);
  auto [it, fresh] = by_key_.emplace(key, static_cast<std::uint32_t>(layouts_.size()));
  if (fresh) layouts_.push_back(std::make_unique<Layout>(std::move(layout)));
  return it->second;
}

}  // namespace bourse::batch
