// Replicas are made and deleted: one after the other, on a thread of their own, never one that is attached.
#include <algorithm>

#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;
using mgmt::log_warning;

using engine::Errc;
using engine::Result;
using engine::Uuid;

namespace {

// `done` for a queue entry, which must be copyable though callbacks are not.
template <class T>
std::shared_ptr<engine::Callback<T>> shared(engine::Callback<T> done) {
  return std::make_shared<engine::Callback<T>>(std::move(done));
}

/// Of a volume that is replaced, one copy is attached while another one is made or removed.
template <class Volumes>
bool holds(const Volumes& volumes, const Uuid& id, const std::string& data) {
  const auto at = volumes.find(id);
  return at != volumes.end() && at->second->spec.data == data;
}

std::unexpected<engine::Error> too_busy() {
  return engine::fail(Errc::resource_exhausted,
                      "The node is stopping, or too many requests wait for it; try again later.");
}

}  // namespace

/// Copies of other volumes are sealed with this node's key, wherever it is now: with another one in its place they
/// would be lost, or, once the key is put back, what was made meanwhile. What takes the place of a lost copy may need a
/// new one.
bool Node::needs_present_key(const ReplicaCreate& request) const {
  if (!request.is_member() || !state_) return false;
  return std::ranges::any_of(
      state_->volumes, [&](const VolumeSpec& spec) { return spec.encrypted && spec.id != request.identity.volume; });
}

/// A key of its own for a replica that is to be encrypted, sealed with this node's.
Result<void> Node::give_key(ReplicaCreate& request) const {
  if (!request.encrypted) return {};
  const auto node = needs_present_key(request) ? keys_.load() : keys_.load_or_make();
  if (!node) return std::unexpected(node.error());
  const auto key = engine::VolumeKey::make();
  if (!key) return std::unexpected(key.error());
  request.identity.key = engine::seal(*key, *node);
  return {};
}

/// Whoever asks for what is under way still, since a disk is slow or hangs, has his turn when it has ended.
void Node::create(ReplicaCreate request, engine::Callback<Result<void>> done) {
  auto reply = shared(std::move(done));
  queue(
      [this, request = std::move(request), reply](engine::Callback<> next) mutable {
        if (holds(volumes_, request.identity.volume, request.data)) {
          (*reply)({});  // it is attached: it was made
          return next();
        }
        if (holds(leaving_, request.identity.volume, request.data)) {
          (*reply)(engine::fail(Errc::refused, still_owed(*leaving_.at(request.identity.volume))));
          return next();
        }
        const Place place{request.identity.volume, request.data};
        auto again = [this, request, reply] { create(request, std::move(*reply)); };
        if (await_disk(place, std::move(again), answer_silence(reply, place.data))) return next();
        if (auto given = give_key(request); !given) {
          (*reply)(std::move(given));
          return next();
        }
        begin_disk_work(place, options_.disk_patience, std::move(next));
        auto made = [this, place, name = request.identity.name, reply](Result<void> outcome) {
          stores_closed_ = home().now();
          if (outcome) log_info("Volume " + name + ": the replica is made.");
          (*reply)(std::move(outcome));
          if (auto go_on = end_disk_work(place)) go_on();
        };
        look_first(place, request.metadata, [this, request, made = std::move(made)]() mutable {
          create_replica(*workers_.front()->ring, file_worker(), request, std::move(made));
        });
      },
      [reply] { (*reply)(too_busy()); });
}

void Node::end_removal(const ReplicaDelete& request, const Removed& outcome, const Reply& reply) {
  if (!outcome) return (*reply)(std::unexpected(outcome.error()));
  if (request.keep_witness) return (*reply)({});  // nor what another copy of it has left
  left_records_.forget(request.volume);
  const bool witness = *outcome && (*outcome)->kind == engine::ArbiterKind::witness;
  if (!witness || !pair_ || stopping_) return (*reply)({});
  // A record that stays behind harms nobody: no volume ever gets the same UUID again.
  pair_->witness().remove(request.volume, [request, reply](std::error_code e) {
    if (e)
      log_warning("Volume " + request.volume.to_string() +
                  ": its record at the witness could not be removed: " + e.message() + ".");
    (*reply)({});
  });
}

void Node::remove(ReplicaDelete request, engine::Callback<Result<void>> done) {
  auto reply = shared(std::move(done));
  if (!request.side && state_) request.side = state_->side;
  queue(
      [this, request = std::move(request), reply](engine::Callback<> next) {
        if (holds(volumes_, request.volume, request.data)) {
          (*reply)(engine::fail(Errc::refused, "The volume is attached; take it out of the desired state first."));
          return next();
        }
        if (holds(leaving_, request.volume, request.data)) {
          (*reply)(engine::fail(Errc::refused, still_owed(*leaving_.at(request.volume))));
          return next();
        }
        const Place place{request.volume, request.data};
        auto again = [this, request, reply] { remove(request, std::move(*reply)); };
        if (await_disk(place, std::move(again), answer_silence(reply, place.data))) return next();
        begin_disk_work(place, options_.disk_patience, std::move(next));
        auto removed = [this, request, place, reply](Removed outcome) {
          late_.erase(place);
          if (auto go_on = end_disk_work(place)) go_on();
          end_removal(request, outcome, reply);
        };
        look_first(place, request.metadata, [this, request, removed = std::move(removed)]() mutable {
          delete_replica(*workers_.front()->ring, file_worker(), request, std::move(removed));
        });
      },
      [reply] { (*reply)(too_busy()); });
}

}  // namespace lockstep::data_plane
