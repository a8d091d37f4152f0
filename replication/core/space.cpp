#include "replication/core/space.hpp"

#include <algorithm>
#include <bit>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;
using engine::Extent;

namespace {
/// Calls `visit(word, mask)` for each word that the bits [from, to) lie in, until it gives false.
template <class Visit>
bool each_word(std::uint64_t from, std::uint64_t to, Visit visit) {
  for (std::uint64_t at = from; at < to; at = (at / 64 + 1) * 64) {
    const std::uint64_t end = std::min(to, (at / 64 + 1) * 64);
    const std::uint64_t ones = end - at == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (end - at)) - 1;
    if (!visit(at / 64, ones << (at % 64))) return false;
  }
  return true;
}
}  // namespace

void RegionBits::set(std::uint64_t from, std::uint64_t to) {
  if (from >= to) return;
  if (words_.size() * 64 < to) words_.resize((to + 63) / 64);
  each_word(from, to, [&](std::uint64_t word, std::uint64_t mask) { return words_[word] |= mask, true; });
}

void RegionBits::clear(std::uint64_t from, std::uint64_t to) {
  to = std::min<std::uint64_t>(to, words_.size() * 64);
  each_word(from, to, [&](std::uint64_t word, std::uint64_t mask) { return words_[word] &= ~mask, true; });
}

bool RegionBits::all(std::uint64_t from, std::uint64_t to) const {
  if (to > words_.size() * 64) return false;
  return each_word(from, to, [&](std::uint64_t word, std::uint64_t mask) { return (words_[word] & mask) == mask; });
}

std::uint64_t RegionBits::first_clear(std::uint64_t from) const {
  for (std::size_t word = from / 64; word < words_.size(); ++word) {
    const std::uint64_t below = word == from / 64 ? (std::uint64_t{1} << (from % 64)) - 1 : 0;
    if (const std::uint64_t open = ~words_[word] & ~below)
      return word * 64 + static_cast<unsigned>(std::countr_zero(open));
  }
  return std::max<std::uint64_t>(from, words_.size() * 64);
}

struct Space::Question {
  Extent extent;
  std::uint64_t moment;
  engine::IoCallback done;
};

bool Space::takes(DiskOpcode opcode, bool may_unmap) const {
  if (!store_.info.thin) return false;
  return opcode == DiskOpcode::write || opcode == DiskOpcode::write_same || opcode == DiskOpcode::compare_and_write ||
         (opcode == DiskOpcode::write_zeroes && !may_unmap);
}

bool Space::frees(DiskOpcode opcode, bool may_unmap) const {
  return opcode == DiskOpcode::unmap || (opcode == DiskOpcode::write_zeroes && may_unmap && store_.info.thin);
}

bool Space::has_all(const RegionBits& bits, Extent extent) const {
  const std::uint64_t region = store_.region_size();
  return bits.all(extent.offset / region, (extent.end() + region - 1) / region);
}

bool Space::is_here(Extent extent) const {
  return !store_.info.thin || !store_.data.info().reserves || has_all(here_, extent);
}

Extent Space::known_from(Extent extent) const {
  if (!store_.info.thin || !store_.data.info().reserves) return {0, store_.volume_size()};
  const std::uint64_t region = store_.region_size();
  const std::uint64_t end = here_.first_clear((extent.end() + region - 1) / region) * region;
  return {extent.offset, std::min(std::max(end, extent.end()), store_.volume_size()) - extent.offset};
}

bool Space::is_there(Extent extent) const { return has_all(there_, extent); }

Extent Space::around(Extent extent) const {
  const std::uint64_t region = store_.region_size();
  const std::uint64_t begin = extent.offset / region * region;
  const std::uint64_t end = (extent.end() + region - 1) / region * region;
  return {begin, std::min(end, store_.volume_size()) - begin};
}

/// A region counts when all of it lies in `extent`; of the last one, what the volume has of it.
void Space::note_inside(RegionBits& bits, Extent extent) const {
  const std::uint64_t region = store_.region_size(), size = store_.volume_size();
  const std::uint64_t end = extent.end() >= size ? store_.region_count() : extent.end() / region;
  bits.set((extent.offset + region - 1) / region, end);
}

void Space::ensure(Extent extent, engine::IoCallback done) {
  if (is_here(extent)) return done({});
  reserve(extent, std::move(done));
}

/// What is taken already is only looked at: setting space aside holds up everything else that the file system does with
/// the file. And the look goes as far as the taken space does: soon after a start all of it is known.
void Space::reserve(Extent extent, engine::IoCallback done) {
  std::unique_ptr<Question> question(new Question{around(extent), moment(), std::move(done)});
  if (!store_.data.info().knows_holes) return set_aside(std::move(question));
  const std::uint64_t offset = question->extent.offset;
  store_.data.next_run(offset,
                       [this, question = std::move(question)](const engine::IoResult<engine::StoreRun>& run) mutable {
                         if (!run || run->hole || run->length < question->extent.length)
                           return set_aside(std::move(question));
                         question->extent.length = run->length;
                         answer(std::move(question), {});
                       });
}

void Space::set_aside(std::unique_ptr<Question> question) {
  const Extent extent = question->extent;
  store_.data.reserve(extent, [this, question = std::move(question)](std::error_code error) mutable {
    const bool was = lacking();
    if (error == Errc::no_space) {
      lacking_ =
          Extent{question->extent.offset, std::min<std::uint64_t>(question->extent.length, store_.region_size())};
      if (!was) asked_ = clock_.now();
    } else if (!error) {
      lacking_.reset();
    }
    if (was != lacking()) changed_();
    answer(std::move(question), error);
  });
}

void Space::answer(std::unique_ptr<Question> question, std::error_code error) {
  if (!error && question->moment && question->moment == moment()) note_inside(here_, question->extent);
  question->done(error);
}

void Space::note_there(Extent extent, std::uint64_t asked) {
  partner_full_ = false;
  if (asked && asked == moment() && extent.fits(store_.volume_size())) note_inside(there_, extent);
}

void Space::begin_freeing(Extent extent) {
  ++freeing_;
  const std::uint64_t region = store_.region_size();
  const std::uint64_t first = extent.offset / region, end = (extent.end() + region - 1) / region;
  here_.clear(first, end);
  there_.clear(first, end);
}

void Space::begin_epoch() {
  forget_partner();
  if (std::exchange(size_, store_.volume_size()) != store_.volume_size()) here_.clear();
}

void Space::tick() {
  if (!lacking_ || asking_again_ || clock_.now() - asked_ < kAskAgain) return;
  asked_ = clock_.now();
  asking_again_ = true;
  reserve(*lacking_, [this](std::error_code error) {
    asking_again_ = false;
    if (error) return;
    mark<"space.made">();
    if (std::exchange(lacking_, std::nullopt)) changed_();  // somebody wrote there: it is taken
  });
}

}  // namespace lockstep::replication
