#include "replication/arbiter/etcd_witness.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "replication/arbiter/etcd_calls.hpp"
#include "replication/arbiter/etcd_messages.hpp"
#include "replication/arbiter/tls_client.hpp"

namespace lockstep::replication {

using engine::Errc;

namespace {

std::string is_tampered(const WitnessSlot& slot) {
  return "what stands at " + witness_key(slot.pair, slot.volume) +
         " was not written there by a node of this pair, or not as the last. Keep others from writing to this etcd";
}

/// etcd counts every write, and the swap is later than what was read. One that was set back in between has lost what it
/// decided since, and one of another cluster (an endpoint that was begun anew) never knew of it: neither says who won.
bool is_of_another(const WitnessView& seen, const WitnessView& written) {
  const bool elsewhere = seen.record && written.cluster != seen.cluster;
  return elsewhere || written.mod_revision <= seen.revision;
}

EtcdProbe found_by(EtcdAnswer answer, std::uint64_t cluster) {
  const bool answers = !answer.problem.code;
  return {answers, answer.refused, std::move(answer.problem.message), answers ? cluster : 0};
}

}  // namespace

struct EtcdWitness::Impl : std::enable_shared_from_this<Impl> {
  using ReadDone = engine::Callback<engine::IoResult<WitnessView>>;
  struct Asked {
    WitnessSlot slot;
    ReadDone done;
  };

  Impl(engine::Reactor& r, EtcdSettings s)
      : reactor(r),
        settings(std::move(s)),
        calls(std::make_shared<EtcdCalls>(reactor, settings.endpoints, settings.tls,
                                          EtcdUser{settings.user, settings.password}, settings.patience)) {}

  engine::Reactor& reactor;
  EtcdSettings settings;
  std::shared_ptr<EtcdCalls> calls;
  std::vector<Asked> reads;  ///< asked in this turn

  [[nodiscard]] WitnessSlot slot(const engine::Uuid& volume) const {
    return {settings.pair, volume, settings.seal, settings.side};
  }

  void read(const engine::Uuid& volume, ReadDone done) {
    reads.push_back({slot(volume), std::move(done)});
    if (reads.size() > 1) return;
    reactor.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->send_reads();
    });
  }

  void send_reads() {
    std::vector<Asked> all = std::exchange(reads, {});
    for (auto from = all.begin(); from != all.end();) {
      const auto count = std::min<std::ptrdiff_t>(all.end() - from, kEtcdMostReads);
      auto asked =
          std::make_shared<std::vector<Asked>>(std::make_move_iterator(from), std::make_move_iterator(from + count));
      from += count;
      std::vector<WitnessSlot> slots;
      for (const auto& one : *asked) slots.push_back(one.slot);
      calls->submit(kEtcdTxnPath, etcd_reads_request(slots), EtcdCallKind::idempotent,
                    [this, asked, slots](EtcdAnswer answer) { on_reads(*asked, slots, answer); });
    }
  }

  void on_reads(std::vector<Asked>& asked, const std::vector<WitnessSlot>& slots, const EtcdAnswer& answer) {
    const auto alive = weak_from_this();
    const auto views =
        answer.problem.code ? std::vector<engine::Result<WitnessView>>() : parse_reads_answer(slots, answer.body);
    for (std::size_t i = 0; i < views.size(); ++i) note(slots[i], views[i]);
    for (std::size_t i = 0; i < asked.size() && !alive.expired(); ++i) {  // a callback may destroy the witness
      if (views.empty())
        asked[i].done(std::unexpected(answer.problem.code));
      else if (views[i])
        asked[i].done(*views[i]);
      else
        asked[i].done(std::unexpected(views[i].error().code));
    }
  }

  // ---- swaps that are asked in one turn: all in one request, or, where one of the records is another one, each alone
  // ----

  using SwapDone = engine::Callback<engine::IoResult<SwapOutcome>>;
  struct Swaps {
    std::vector<EtcdSwap> what;
    std::vector<SwapDone> done;
  };
  Swaps swaps;  ///< asked in this turn

  void swap(EtcdSwap what, SwapDone done) {
    swaps.what.push_back(std::move(what));
    swaps.done.push_back(std::move(done));
    if (swaps.what.size() > 1) return;
    reactor.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->send_swaps();
    });
  }

  void send_swaps() {
    Swaps all = std::exchange(swaps, {});
    for (std::size_t from = 0; from < all.what.size(); from += kEtcdMostSwaps) {
      const std::size_t until = std::min(all.what.size(), from + kEtcdMostSwaps);
      if (until - from == 1) {
        send_swap(all.what[from], std::move(all.done[from]));
        continue;
      }
      auto some = std::make_shared<Swaps>();
      for (std::size_t i = from; i < until; ++i) {
        some->what.push_back(std::move(all.what[i]));
        some->done.push_back(std::move(all.done[i]));
      }
      calls->submit(kEtcdTxnPath, etcd_swaps_request(some->what), EtcdCallKind::compare_and_swap,
                    [this, some](EtcdAnswer answer) { on_swaps(*some, answer); });
    }
  }

  void send_swap(const EtcdSwap& what, SwapDone done) {
    calls->submit(kEtcdTxnPath, etcd_swap_request(what.slot, what.seen, what.record), EtcdCallKind::compare_and_swap,
                  [this, what, done = std::move(done)](EtcdAnswer answer) mutable {
                    if (answer.problem.code) return done(std::unexpected(answer.problem.code));
                    auto outcome = parse_swap_answer(what.slot, what.record, answer.body);
                    if (outcome && is_void(what, *outcome)) outcome = std::unexpected(void_win(what));
                    if (outcome) return done(*outcome);
                    calls->note_problem(outcome.error().message);
                    done(std::unexpected(make_error_code(Errc::unknown_outcome)));
                  });
  }

  void on_swaps(Swaps& some, const EtcdAnswer& answer) {
    std::error_code error = answer.problem.code;
    std::vector<SwapOutcome> won;
    if (!error) {
      auto outcomes = parse_swaps_answer(some.what, answer.body);
      if (outcomes && outcomes->empty()) {
        for (std::size_t i = 0; i < some.what.size(); ++i) send_swap(some.what[i], std::move(some.done[i]));
        return;
      }
      if (outcomes) won = std::move(*outcomes);
      if (!outcomes) calls->note_problem(outcomes.error().message);
      if (!outcomes) error = make_error_code(Errc::unknown_outcome);
    }
    const auto alive = weak_from_this();
    for (std::size_t i = 0; i < some.done.size() && !alive.expired(); ++i) {
      const bool counts = !error && !is_void(some.what[i], won[i]);
      if (!error && !counts) calls->note_problem(void_win(some.what[i]).message);
      if (counts)
        some.done[i](won[i]);
      else
        some.done[i](std::unexpected(error ? error : make_error_code(Errc::unknown_outcome)));
    }
  }

  static bool is_void(const EtcdSwap& swap, const SwapOutcome& outcome) {
    return outcome.won && is_of_another(swap.seen, outcome.current);
  }
  static engine::Error void_win(const EtcdSwap& swap) {
    return {make_error_code(Errc::unknown_outcome),
            "what wrote " + witness_key(swap.slot.pair, swap.slot.volume) +
                " is not the etcd that was read just before: it was set back, or one of the endpoints is of another "
                "cluster"};
  }

  void note(const WitnessSlot& slot, const engine::Result<WitnessView>& view) {
    if (!view) calls->note_problem(view.error().message);
    if (view && view->tampered) calls->note_problem(is_tampered(slot));
  }
};

engine::Result<EtcdSettings> EtcdSettings::create(const engine::Uuid& pair, std::span<const std::string> endpoints,
                                                  const WitnessAccess& access) {
  EtcdSettings settings;
  settings.pair = pair;
  for (const auto& url : endpoints) {
    auto endpoint = HttpEndpoint::parse(url);
    if (!endpoint) return std::unexpected(endpoint.error());
    settings.endpoints.push_back(std::move(*endpoint));
  }
  if (const auto problems = problems_of(endpoints, access); !problems.empty())
    return engine::fail(Errc::refused, "The witness's " + std::string(problems.front().field) + " cannot be used. " +
                                           problems.front().message);
  settings.user = access.user;
  settings.password = access.password;
  if (access.ca.empty()) return settings;
  auto tls = TlsClient::create(access);
  if (!tls) return std::unexpected(tls.error());
  settings.tls = std::move(*tls);
  return settings;
}

EtcdWitness::EtcdWitness(engine::Reactor& reactor, EtcdSettings settings) {
  assert(!settings.endpoints.empty());
  impl_ = std::make_shared<Impl>(reactor, std::move(settings));
}

EtcdWitness::~EtcdWitness() { impl_->calls->close(); }

void EtcdWitness::read(const engine::Uuid& volume, engine::Callback<engine::IoResult<WitnessView>> done) {
  impl_->read(volume, std::move(done));
}

void EtcdWitness::swap(const engine::Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
                       engine::Callback<engine::IoResult<SwapOutcome>> done) {
  impl_->swap({impl_->slot(volume), seen, record}, std::move(done));
}

void EtcdWitness::remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) {
  impl_->calls->submit(kEtcdDeletePath, etcd_delete_request(impl_->slot(volume)), EtcdCallKind::idempotent,
                       [impl = impl_.get(), done = std::move(done)](EtcdAnswer answer) mutable {
                         if (answer.problem.code) return done(answer.problem.code);
                         const auto outcome = parse_delete_answer(answer.body);
                         if (outcome) return done({});
                         impl->calls->note_problem(outcome.error().message);
                         done(make_error_code(Errc::unknown_outcome));
                       });
}

void EtcdWitness::probe(engine::Callback<EtcdProbe> done, engine::Duration patience) {
  const WitnessSlot slot = impl_->slot({});
  impl_->calls->submit(
      kEtcdRangePath, etcd_range_request(slot), EtcdCallKind::probe,
      [slot, done = std::move(done)](EtcdAnswer answer) mutable {
        const auto view = parse_range_answer(slot, answer.body);
        done(found_by(std::move(answer), view ? view->cluster : 0));
      },
      patience);
}

void EtcdWitness::try_write(engine::Callback<EtcdProbe> done, engine::Duration patience) {
  const WitnessSlot slot = impl_->slot({});
  impl_->calls->submit(
      kEtcdTxnPath, etcd_write_trial_request(slot), EtcdCallKind::probe,
      [slot, done = std::move(done)](EtcdAnswer answer) mutable {
        const auto view = parse_reads_answer(std::span(&slot, 1), answer.body).front();
        done(found_by(std::move(answer), view ? view->cluster : 0));
      },
      patience);
}

void EtcdWitness::ask_as_nobody(engine::Callback<std::optional<bool>> done) {
  impl_->calls->submit(kEtcdRangePath, etcd_range_request(impl_->slot({})), EtcdCallKind::as_nobody,
                       [done = std::move(done)](const EtcdAnswer& answer) mutable {
                         if (!answer.problem.code) return done(true);
                         done(answer.refused ? std::optional(false) : std::nullopt);
                       });
}

void EtcdWitness::tend() { impl_->calls->tend(); }
void EtcdWitness::when_ended(std::function<void()> ended) { impl_->calls->when_ended(std::move(ended)); }
const std::string& EtcdWitness::last_problem() const { return impl_->calls->last_problem(); }
const LineEstimate& EtcdWitness::line() const { return impl_->calls->estimate(); }
engine::TimePoint EtcdWitness::answered_at() const { return impl_->calls->answered_at(); }

}  // namespace lockstep::replication
