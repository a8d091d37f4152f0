#include "replication/core/growth.hpp"

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::fail;

void Growth::make_room(std::uint64_t size, Done done) {
  if (size <= store_.room()) return done({});
  if (standing_.closed() || making_room_) {
    return done(fail(Errc::refused, "The volume is being detached, or makes room already. Try again in a moment."));
  }
  if (store_.data.info().size < size) {
    return done(fail(Errc::no_space, "The store " + store_.data.info().name + " has " +
                                         std::to_string(store_.data.info().size) + " bytes, not " +
                                         std::to_string(size) + "."));
  }
  making_room_ = true;
  store_.meta->grow(size, [this, done = std::move(done)](std::error_code error) mutable {
    making_room_ = false;
    if (error) {
      // What the superblock says now is not known: as with an epoch record that can't be written, this replica stops.
      const bool unknown = error != Errc::refused && error != Errc::no_space && error != Errc::resource_exhausted;
      if (unknown && !standing_.closed()) store_.fail_metadata("The metadata can't grow: " + error.message() + ".");
      return done(std::unexpected(engine::Error{error, "The metadata can't grow: " + error.message() + "."}));
    }
    mark<"membership.made_room">();
    news_();
    done({});
  });
}

void Growth::want_size(std::uint64_t size) {
  if (size == wanted_size_) return;
  wanted_size_ = size;
  if (wanted_size_ > store_.volume_size()) news_();
}

void Growth::note_partner_room(const Message& m) {
  const bool news = m.extent.length != partner_room_;
  partner_room_ = m.extent.length;
  if (news && size_to_take() > store_.volume_size()) news_();
}

std::uint64_t Growth::size_to_take() const {
  return wanted_size_ <= store_.room() && wanted_size_ <= partner_room_ ? wanted_size_ : 0;
}

std::uint64_t Growth::size_to_take_alone() const {
  if (wanted_size_ <= store_.volume_size() || wanted_size_ > store_.room()) return 0;
  return wanted_size_;
}

}  // namespace lockstep::replication
