#pragma once
// Whether events come one by one. Who has handled one then need not look for others before the turn that closes it: a
// host that sends a command when the one before was answered sends no second one meanwhile.
//
// A turn that comes without that look can't tell whether it should have looked, so each sixteenth is made with it.

namespace lockstep::engine {

class LoneEvents {
 public:
  void came() { ++events_; }
  /// The turn for the event that was handled just now may follow at once.
  [[nodiscard]] bool closes_turn() {
    if (!alone_ || events_ > 1 || --left_ == 0) return false;
    hasty_ = true;
    return true;
  }
  /// A turn begins.
  void turned() {
    if (!hasty_ && events_ > 0) {
      alone_ = events_ == 1;
      left_ = kHasty;
    }
    hasty_ = false;
    events_ = 0;
  }

 private:
  static constexpr int kHasty = 16;

  int events_ = 0;      ///< since the last turn
  int left_ = kHasty;   ///< until a turn is made with a look
  bool alone_ = false;  ///< there was one event before the last turn that was made with a look
  bool hasty_ = false;  ///< the turn that begins is made without
};

}  // namespace lockstep::engine
