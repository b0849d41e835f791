// Threads that take no signals.
//
// A signal for the process goes to any thread that does not block it. Reactor::on_signal blocks it in the loop's thread only;
// a thread with the mask of an earlier moment would take it, and by default die of it with the whole process. So every thread
// of ours is started by this.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace bourse {

template <class Body>
std::thread quiet_thread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace bourse
