#include "master/readers.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "common/core/hooks.h"
#include "common/wire/wire.h"
#include "common/world/log.h"
#include "common/world/thread.h"
#include "master/reader_store.h"
#include "master/status.h"

namespace bourse {
namespace {

constexpr std::size_t kTables = house::kViewTables.size();
constexpr Duration kPieceLife = seconds(2);         // of an encoded piece
constexpr Duration kFlushEvery = milliseconds(20);  // at most so often the actor is asked for what is new
constexpr std::int64_t kPieceBytes = 512 * 1024;
constexpr std::size_t kInboxMax = 20'000;  // updates that wait for the thread, of 200 rows at most
constexpr int kNice = 5;                   // whoever decides comes first

std::size_t table_of(std::string_view what) {
  const auto found = std::find(house::kViewTables.begin(), house::kViewTables.end(), what);
  return static_cast<std::size_t>(found - house::kViewTables.begin());
}

std::string known_tables() {
  std::string text;
  for (const std::string_view what : house::kViewTables) text += (text.empty() ? "" : ", ") + std::string(what);
  return text;
}

}  // namespace

struct Readers::Impl {
  struct Place {  // in one table's changes
    bool wanted = false, begun = false, whole = false;
    std::uint64_t through = 0;
  };
  struct Session {
    std::string identity;
    Duration heard{0}, beaten{0}, acked_at{0};
    bool watching = false;
    std::uint64_t tag = 0, sent = 0, acked = 0;
    std::uint32_t credit = 0;
    std::size_t next = 0;  // table
    std::string events_after;
    std::array<Place, kTables> places{};
  };
  struct Query {
    PeerId peer;
    StatusQuery query;
    std::uint64_t flush = 0;  // answered when this has come
  };

  Options options;
  Wanted wanted;
  std::string bound;
  std::thread thread;  // lint-ok: the readers' own, beside the actor

  // Shared with the main thread.
  std::mutex mutex;
  std::vector<ViewUpdate> inbox;
  Epoch inbox_epoch;
  std::string inbox_cluster;
  std::optional<Keyring> inbox_keyring;
  bool inbox_told = false, inbox_overrun = false;
  std::atomic<std::uint64_t> n_sessions{0}, n_queries{0}, n_updates{0}, n_cut{0}, n_encoded{0}, n_flushes{0};

  // The thread's own.
  Reactor* reactor = nullptr;
  Context* context = nullptr;
  Listener* listener = nullptr;
  std::array<ReaderTable, kTables> tables;
  EncodedPieces pieces;
  Duration pieces_since{0};
  Epoch epoch;
  std::string cluster;
  std::map<std::uint64_t, Session> sessions;
  std::deque<Query> queries;
  std::map<PeerId, std::string> waiting;  // hellos, for the actor's first words; and who said them
  std::uint64_t flush_asked = 0, flush_done = 0;
  Duration flush_at{0};
  bool flush_timer = false, on = false;
  Duration empty_since{0};

  [[nodiscard]] static Duration now() { return real_time().mono; }

  void run(std::promise<Result<>> started) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);  // of this thread only, on Linux
    Reactor own_reactor;
    Context own_context;
    own_context.set_keyring(options.keyring);
    SocketLimits limits;
    limits.high_water_mark = 1'000;
    limits.message_bytes_max = 1024 * 1024;
    limits.frames_per_second = options.limits.frames_per_second;
    Listener own_listener(own_context, own_reactor, limits);
    reactor = &own_reactor, context = &own_context, listener = &own_listener;
    tables[table_of("events")] = ReaderTable(true);
    auto done = own_listener.bind(options.endpoint, options.keys ? &*options.keys : nullptr, /*allow_plain=*/true);
    bound = own_listener.endpoint();
    const bool good = static_cast<bool>(done);
    own_listener.on_frame([this](const Frame& frame) { on_frame(frame); });
    own_listener.on_lost([this](PeerId peer, const std::string& why) { drop(peer, why); });
    started.set_value(std::move(done));
    if (!good) return;
    beat_later();
    own_reactor.run();
  }

  // --- from the actor ------------------------------------------------------------------------------------------------

  void take_inbox() {
    std::vector<ViewUpdate> updates;
    std::optional<Keyring> keyring;
    bool overrun = false;
    {
      std::lock_guard lock(mutex);
      updates.swap(inbox);
      keyring.swap(inbox_keyring);
      inbox_told = false;
      overrun = std::exchange(inbox_overrun, false);
      epoch = inbox_epoch;
      cluster = inbox_cluster;
    }
    if (overrun) {  // we were away for so long that the actor had to throw away what it told
      log_event(LogLevel::kWarn, "readers_overrun", {{"then", "asking for everything anew"}});
      want(false, false);
      return want(true, true);
    }
    if (epoch.value != 0)
      for (const auto& [peer, identity] : std::exchange(waiting, {})) welcome(peer, identity);
    if (keyring) {
      context->set_keyring(*std::move(keyring));
      listener->recheck_keys();
    }
    for (const ViewUpdate& update : updates) {
      if (update.what.empty()) {
        flush_done = std::max(flush_done, update.sequence.value);
        continue;
      }
      const std::size_t table = table_of(update.what);
      if (table == kTables) continue;
      if (update.snapshot && update.more) forget_places(table);
      tables[table].apply(update);
    }
    n_updates += updates.size();
    if (const Duration t = now(); t - pieces_since > kPieceLife) pieces.clear(), pieces_since = t;
    answer_queries();
    std::vector<PeerId> watching;
    for (const auto& [peer, session] : sessions)
      if (session.watching) watching.emplace_back(peer);
    for (const PeerId peer : watching) flow(peer);
  }

  // The actor begins anew: so does everybody who follows it.
  void forget_places(std::size_t table) {
    pieces.clear();
    for (auto& [peer, session] : sessions) session.places[table].begun = session.places[table].whole = false;
  }

  void want(bool now_on, bool flush) {
    on = now_on;
    if (flush) ++flush_asked, ++n_flushes, flush_at = now();
    wanted(on, flush ? flush_asked : 0);
  }

  // --- from readers ----------------------------------------------------------------------------------------------------

  void send(PeerId peer, Body body) {
    Message message;
    message.epoch = epoch;
    message.body = std::move(body);
    if (!listener->send(peer, wire::encode(message))) drop(peer, "");
  }

  void drop(PeerId peer, const std::string& why) {
    waiting.erase(peer);
    if (sessions.erase(peer.value) == 0) return;
    if (!why.empty()) log_event(LogLevel::kInfo, "reader_dropped", {{"peer", std::to_string(peer.value)}, {"reason", why}});
    std::erase_if(queries, [&](const Query& q) { return q.peer == peer; });
    if (sessions.empty()) empty_since = now();
    n_sessions = sessions.size();
  }

  void on_frame(const Frame& frame) {
    auto message = wire::decode(frame.bytes);
    if (!message) {
      if (listener->strike(frame.peer))
        log_event(LogLevel::kWarn, "frame_refused",
                  {{"identity", frame.identity},
                   {"from", frame.address},
                   {"reason", message.error().text()},
                   {"then", "it is not listened to for " + format_duration(kCutPause)}});
      return;
    }
    const PeerId peer = frame.peer;
    if (const auto* hello = std::get_if<ReaderHello>(&message->body)) return on_hello(frame, *hello);
    const auto found = sessions.find(peer.value);
    if (found == sessions.end()) {
      if (listener->strike(peer)) return;
      return send(peer, Refused{Code::kGone, "say hello first"});
    }
    Session& session = found->second;
    session.heard = now();
    if (const auto* query = std::get_if<StatusQuery>(&message->body)) return on_query(peer, *query);
    if (const auto* watch = std::get_if<Watch>(&message->body)) return on_watch(peer, session, *watch);
    if (const auto* ack = std::get_if<WatchAck>(&message->body)) {
      if (ack->tag != session.tag || ack->through.value > session.sent || ack->through.value <= session.acked) return;
      session.acked = ack->through.value;
      session.acked_at = session.heard;
      return flow(peer);
    }
    if (std::holds_alternative<Heartbeat>(message->body)) return;
    if (std::holds_alternative<Goodbye>(message->body)) return drop(peer, "");
    send(peer,
         Refused{Code::kDenied, std::string(body_name(message->body)) + " is for the master itself, not for its readers' socket"});
  }

  void on_hello(const Frame& frame, const ReaderHello& hello) {
    if (hello.version != kProtocolVersion)
      return send(frame.peer, Refused{Code::kVersion, "reader " + hello.name + " speaks protocol " + std::to_string(hello.version) +
                                                          ", this master " + std::to_string(kProtocolVersion)});
    const bool may = !options.keys || frame.identity.starts_with("operator:") || frame.identity.starts_with("reader:") ||
                     frame.identity.starts_with("framework:");
    if (!may) {
      log_event(LogLevel::kWarn, "reader_refused", {{"identity", frame.identity}, {"from", frame.address}, {"code", "denied"}});
      return send(frame.peer, Refused{Code::kDenied, "key '" + frame.identity + "' may not read"});
    }
    if (sessions.size() + waiting.size() >= options.limits.sessions_max && !sessions.contains(frame.peer.value))
      return send(frame.peer, Refused{Code::kLimit, "there are as many readers as this master serves"});
    const bool was_on = on;
    if (!on) want(true, true);
    // Nobody leads here, as far as we know: silent, as the master itself is, until it has told us.
    if (!was_on || epoch.value == 0)
      waiting[frame.peer] = frame.identity;
    else
      welcome(frame.peer, frame.identity);
  }

  void welcome(PeerId peer, const std::string& identity) {
    Session session;
    session.identity = identity;
    session.heard = session.beaten = session.acked_at = now();
    sessions[peer.value] = std::move(session);
    n_sessions = sessions.size();
    Welcome hello{kProtocolVersion, cluster, options.heartbeat, options.peer_timeout, {}};
    hello.readers = bound;
    send(peer, std::move(hello));
  }

  // --- pages -----------------------------------------------------------------------------------------------------------

  void on_query(PeerId peer, const StatusQuery& query) {
    ++n_queries;
    StatusReply refusal;
    refusal.tag = query.tag;
    if (table_of(query.what) == kTables) {
      refusal.code = Code::kUnsupported;
      refusal.reason = "'" + query.what + "' is none of " + known_tables() + "; the master itself may know it";
      return send(peer, std::move(refusal));
    }
    if (queries.size() >= options.limits.queries_max) {
      refusal.code = Code::kBusy;
      refusal.reason = "too many questions wait; try again";
      return send(peer, std::move(refusal));
    }
    // A page that follows another goes on with what was so then.
    const bool fresh = query.after.empty() || query.what == "events";
    queries.push_back({peer, query, fresh && !hooks::mutant("readers.stale") ? flush_asked + 1 : 0});
    if (queries.back().flush == 0) return answer_queries();
    ask_flush();
  }

  void ask_flush() {
    if (flush_asked > flush_done || flush_timer) return;  // when that one has come, the next is asked for
    const Duration wait = flush_at + kFlushEvery - now();
    if (flush_asked == 0 || wait <= Duration(0)) return want(true, true);
    flush_timer = true;
    reactor->after(wait, [this] {
      flush_timer = false;
      if (flush_asked <= flush_done) want(true, true);
    });
  }

  void answer_queries() {
    bool waits = false;
    for (std::size_t i = queries.size(); i > 0; --i) {
      Query query = std::move(queries.front());
      queries.pop_front();
      if (query.flush <= flush_done && tables[table_of(query.query.what)].ready()) {
        answer(query);
      } else {
        waits = waits || query.flush > flush_asked;
        queries.push_back(std::move(query));
      }
    }
    if (waits) ask_flush();
  }

  void answer(const Query& query) {
    const StatusQuery& q = query.query;
    const ReaderTable& table = tables[table_of(q.what)];
    std::size_t limit = std::min<std::size_t>(q.limit == 0 ? house::kStatusPage : q.limit, options.limits.rows);
    const std::string key = "p|" + q.what + "|" + q.after + "|" + std::to_string(limit) + "|" + std::to_string(table.version());
    const EncodedPieces::Entry* entry = pieces.find(key);
    while (entry == nullptr) {
      Message message;
      message.epoch = epoch;
      message.body = table.page(q.after, limit);
      EncodedPieces::Entry made;
      made.bytes = wire::encode_once(std::move(message), made.places);
      ++n_encoded;
      if (static_cast<std::int64_t>(made.bytes.size()) > kPieceBytes && limit > 1)
        limit /= 2;
      else
        entry = &pieces.keep(key, std::move(made));
    }
    std::string bytes = entry->bytes;
    wire::stamp(bytes, entry->places, q.tag);
    if (!listener->send(query.peer, std::move(bytes))) drop(query.peer, "its queue is full");
  }

  // --- streams ---------------------------------------------------------------------------------------------------------

  void on_watch(PeerId peer, Session& session, const Watch& watch) {
    session.places = {};
    session.watching = true;
    session.tag = watch.tag;
    session.sent = session.acked = 0;
    session.acked_at = session.heard;
    session.credit =
        std::clamp<std::uint32_t>(watch.credit == 0 ? options.limits.credit_default : watch.credit, 1, options.limits.credit_max);
    session.events_after = watch.after;
    for (const std::string& what : watch.what) {
      const std::size_t table = table_of(what);
      if (table == kTables) {
        session.watching = false;
        ViewUpdate refusal;
        refusal.tag = watch.tag;
        refusal.what = what;
        refusal.code = Code::kInvalid;
        refusal.reason = "'" + what + "' is none of " + known_tables();
        return send(peer, std::move(refusal));
      }
      session.places[table].wanted = true;
    }
    flow(peer);
  }

  // Sends while it has credit and there is something.
  void flow(PeerId peer) {
    const auto found = sessions.find(peer.value);
    if (found == sessions.end()) return;
    Session& session = found->second;
    std::size_t idle = 0;
    while (session.watching && idle < kTables &&
           (session.sent - session.acked < session.credit || hooks::mutant("readers.no_credit"))) {
      const std::size_t table = session.next;
      session.next = (session.next + 1) % kTables;
      ++idle;
      Place& place = session.places[table];
      if (!place.wanted || !tables[table].ready() || (place.whole && place.through == tables[table].version())) continue;
      idle = 0;
      if (session.sent == session.acked) session.acked_at = now();  // from here on it owes us one
      if (!send_piece(peer, session, table)) return drop(peer, "its queue is full");
    }
  }

  bool send_piece(PeerId peer, Session& session, std::size_t table) {
    Place& place = session.places[table];
    const std::string what(house::kViewTables[table]);
    if (!place.begun) {
      place.begun = true;
      place.whole = false;
      place.through = 0;
      if (what == "events" && !session.events_after.empty()) place.through = tables[table].version_of_event(session.events_after);
    }
    std::size_t limit = options.limits.rows;
    const std::string key = "w|" + what + "|" + std::to_string(place.through) + (place.whole ? "|d" : "|s");
    const EncodedPieces::Entry* entry = pieces.find(key);
    while (entry == nullptr) {
      ReaderTable::Piece piece = tables[table].after(place.through, limit);
      if (piece.lost) {  // it lagged behind too far: from the start
        place.begun = false;
        return send_piece(peer, session, table);
      }
      ViewUpdate update;
      update.what = what;
      update.snapshot = !place.whole;
      update.more = piece.through < tables[table].version();
      update.rows = std::move(piece.rows);
      update.removed = std::move(piece.removed);
      Message message;
      message.epoch = epoch;
      message.body = std::move(update);
      EncodedPieces::Entry made;
      made.through = piece.through;
      made.bytes = wire::encode_once(std::move(message), made.places);
      ++n_encoded;
      if (static_cast<std::int64_t>(made.bytes.size()) > kPieceBytes && limit > 1)
        limit /= 2;
      else
        entry = &pieces.keep(key, std::move(made));
    }
    place.through = entry->through;
    if (place.through == tables[table].version()) place.whole = true;
    std::string bytes = entry->bytes;
    wire::stamp(bytes, entry->places, session.tag, Sequence(++session.sent));
    return listener->send(peer, std::move(bytes));
  }

  // --- time ------------------------------------------------------------------------------------------------------------

  void beat_later() {
    reactor->after(std::max<Duration>(std::min(options.heartbeat, options.limits.stall) / 2, milliseconds(10)), [this] {
      beat();
      beat_later();
    });
  }

  void beat() {
    const Duration t = now();
    std::vector<PeerId> silent, stalled, due;
    for (auto& [peer, session] : sessions) {
      if (t - session.heard > options.peer_timeout) {
        silent.emplace_back(peer);
      } else if (session.watching && session.sent > session.acked && t - session.acked_at > options.limits.stall &&
                 !hooks::mutant("readers.never_cut")) {
        stalled.emplace_back(peer);
      } else if (t - session.beaten >= options.heartbeat) {
        session.beaten = t;
        due.emplace_back(peer);
      }
    }
    for (const PeerId peer : silent) drop(peer, "");
    for (const PeerId peer : stalled) {
      ViewUpdate over;
      over.tag = sessions.at(peer.value).tag;
      over.code = Code::kGone;
      over.reason = "nothing was acknowledged for " + format_duration(options.limits.stall) + "; say hello and begin anew";
      ++n_cut;
      send(peer, std::move(over));
      drop(peer, "it stopped reading");
    }
    for (const PeerId peer : due) send(peer, Heartbeat{real_time().wall});
    if (on && sessions.empty() && t - empty_since >= options.limits.linger)
      want(false, false);
    else if (on)
      want(true, false);  // an actor that began anew, as after a change of the leader, has not heard it
  }
};

Readers::Readers() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<Readers>> Readers::open(Options options, Wanted wanted) {
  std::unique_ptr<Readers> readers(new Readers());
  Impl& im = *readers->impl_;
  im.options = std::move(options);
  im.wanted = std::move(wanted);
  std::promise<Result<>> started;
  auto result = started.get_future();
  im.thread = quiet_thread([&im, started = std::move(started)]() mutable { im.run(std::move(started)); });
  if (auto good = result.get(); !good) return std::move(good).error();
  return readers;
}

Readers::~Readers() {
  if (!impl_->thread.joinable()) return;
  if (!impl_->bound.empty()) impl_->reactor->wake([this] { impl_->reactor->stop(); });
  impl_->thread.join();
}

const std::string& Readers::endpoint() const { return impl_->bound; }

void Readers::publish(std::vector<ViewUpdate> updates, Epoch epoch, const std::string& cluster) {
  Impl& im = *impl_;
  bool tell = false;
  {
    std::lock_guard lock(im.mutex);
    if (im.inbox.size() + updates.size() > kInboxMax) {
      im.inbox.clear();
      im.inbox_overrun = true;
    } else if (!im.inbox_overrun) {
      for (ViewUpdate& update : updates) im.inbox.push_back(std::move(update));
    }
    im.inbox_epoch = epoch;
    im.inbox_cluster = cluster;
    tell = !std::exchange(im.inbox_told, true);
  }
  if (tell) im.reactor->wake([&im] { im.take_inbox(); });
}

void Readers::set_keyring(Keyring keyring) {
  Impl& im = *impl_;
  {
    std::lock_guard lock(im.mutex);
    im.inbox_keyring = std::move(keyring);
  }
  im.reactor->wake([&im] { im.take_inbox(); });
}

Readers::Counters Readers::counters() const {
  const Impl& im = *impl_;
  return {im.n_sessions, im.n_queries, im.n_updates, im.n_cut, im.n_encoded, im.n_flushes};
}

}  // namespace bourse
