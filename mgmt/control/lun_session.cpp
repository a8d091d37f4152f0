#include "mgmt/control/lun_session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>

#include "mgmt/control/lun_identity.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kCommandSeconds = 30;
constexpr auto kOpenPatience = std::chrono::seconds(20);
constexpr int kMaxAttentions = 16;                        // unit attentions that a unit may have ready for a newcomer
constexpr int kNoSuchUnit = 0x25, kTargetChanged = 0x3F;  // additional sense codes
constexpr int kPageBytes = 255;                           // of an INQUIRY: what the oldest units give at once
constexpr std::uint32_t kStatusBytes = 4096;              // of GET LBA STATUS's answer
constexpr std::uint64_t kMaxZeroes = std::uint64_t{16} << 20;  // bytes of one WRITE SAME

struct FreeTask {
  void operator()(scsi_task* task) const { scsi_free_scsi_task(task); }
};
using Task = std::unique_ptr<scsi_task, FreeTask>;

bool is(const scsi_task& task, scsi_sense_key key) {
  return task.status == SCSI_STATUS_CHECK_CONDITION && task.sense.key == key;
}

// SBC-4 has two values for what is mapped, and one for what the unit does not know: all but a certain hole is read.
bool is_hole(const scsi_lba_status_descriptor& run) {
  std::uint32_t status = 0;  // libiscsi's enumeration has no place for all values
  std::memcpy(&status, &run.provisioning, sizeof status);
  return status == SCSI_PROVISIONING_TYPE_DEALLOCATED || status == SCSI_PROVISIONING_TYPE_ANCHORED;
}

// Statuses from the unit are final, but for "not now"; anything else is the connection's. A unit that was there goes
// and comes again with its array, and so does a reservation.
bool passing(int status, const scsi_task* task) {
  if (status != SCSI_STATUS_CHECK_CONDITION) return true;
  const auto key = task->sense.key;
  if (key == SCSI_SENSE_ILLEGAL_REQUEST) {
    const int code = task->sense.ascq >> 8;
    return code == kNoSuchUnit || code == kTargetChanged;
  }
  return key == SCSI_SENSE_NOT_READY || key == SCSI_SENSE_UNIT_ATTENTION || key == SCSI_SENSE_COMMAND_ABORTED;
}

std::string reason(int status, const scsi_task* task) {
  if (status == SCSI_STATUS_RESERVATION_CONFLICT) return "it is reserved by another host";
  if (status == SCSI_STATUS_BUSY || status == SCSI_STATUS_TASK_SET_FULL) return "it is busy";
  if (status == SCSI_STATUS_TIMEOUT) return "it did not answer in time";
  if (status != SCSI_STATUS_CHECK_CONDITION || !task) return "the connection was lost";
  // libiscsi has no name for many codes: null then.
  const char* key = scsi_sense_key_str(task->sense.key);
  const char* code = scsi_sense_ascq_str(task->sense.ascq);
  return fmt::format("{}, {}", key ? key : fmt::format("SENSE KEY {:#x}", static_cast<int>(task->sense.key)),
                     code ? code : fmt::format("ADDITIONAL SENSE CODE {:#06x}", task->sense.ascq));
}

}  // namespace

struct LunSession::Impl {
  using Ended = std::function<void(int status, scsi_task* task)>;
  /// A command to the unit. One that failed stays as it is until the context is gone: data that is still queued for it
  /// names its task.
  struct Slot {
    Impl* session = nullptr;
    Ended done;
    int status = 0;
    Task task;
  };
  using Command = Slot*;
  std::deque<Slot> slots;
  std::vector<Slot*> idle, answered;

  LunAddress address;
  iscsi_context* context = nullptr;

  // Cancels what is under way; nobody is called for it any more.
  ~Impl() {
    if (context) iscsi_destroy_context(context);
  }

  // libiscsi's callbacks only take note, and `call_back` does the rest: an exception that left them through the library
  // would leave the command in its queue, to be ended a second time when its task is gone.
  static void ended(iscsi_context*, int status, void* task, void* command) noexcept {
    auto* slot = static_cast<Slot*>(command);
    slot->status = status;
    slot->task.reset(static_cast<scsi_task*>(task));
    slot->session->answered.push_back(slot);
  }
  // Connecting and logging in come back without a task.
  static void step_ended(iscsi_context* context, int status, void*, void* command) noexcept {
    ended(context, status, nullptr, command);
  }
  void not_sent(scsi_task* task, Command command) {
    if (!task) ended(context, SCSI_STATUS_ERROR, nullptr, command);
  }

  void call_back() {
    for (Slot* slot : std::exchange(answered, {})) {
      std::exchange(slot->done, nullptr)(slot->status, slot->task.get());
      if (slot->status != SCSI_STATUS_GOOD) continue;
      slot->task.reset();
      idle.push_back(slot);
    }
  }
  Command command(Ended done) {
    if (idle.empty()) idle.push_back(&slots.emplace_back(this));
    Slot* slot = idle.back();
    idle.pop_back();
    slot->done = std::move(done);
    return slot;
  }
  [[nodiscard]] LunFault fault(const std::string& did, int status, const scsi_task* task) const {
    return {passing(status, task),
            fmt::format("{} ({}) {}: {}.", address.what, address.portal, did, reason(status, task))};
  }

  std::optional<LunFault> turn(short came) {
    const bool open = iscsi_service(context, came) == 0;
    call_back();
    if (open) return std::nullopt;
    return LunFault{true, fmt::format("{} ({}) closed the connection.", address.what, address.portal)};
  }

  // ---- opening ----

  /// Runs the loop until `ended`; a fault when it takes too long.
  std::optional<LunFault> wait(const bool& ended, const std::atomic<bool>& stop) {
    const auto until = Clock::now() + kOpenPatience;
    while (!ended) {
      if (stop) return LunFault{true, "This node's management is stopping."};
      if (Clock::now() > until)
        return LunFault{true, fmt::format("{} does not answer at {}.", address.what, address.portal)};
      pollfd one{iscsi_get_fd(context), static_cast<short>(iscsi_which_events(context)), 0};
      if (::poll(&one, 1, 100) < 0) continue;
      if (auto over = turn(one.revents); over && !ended) {
        return LunFault{true, fmt::format("{} can't be reached at {}.", address.what, address.portal)};
      }
    }
    return std::nullopt;
  }

  struct Answer {
    bool ended = false;
    int status = 0;
  };
  Command into(Answer& answer) {
    return command([&answer](int status, scsi_task*) {
      answer.ended = true;
      answer.status = status;
    });
  }

  std::optional<LunFault> connect(const std::atomic<bool>& stop) {
    Answer answer;
    Command pending = into(answer);
    if (iscsi_connect_async(context, address.portal.c_str(), &Impl::step_ended, pending) != 0) {
      return LunFault{true, fmt::format("{} can't be reached at {}. Check the address and the name service.",
                                        address.what, address.portal)};
    }
    if (auto late = wait(answer.ended, stop)) return late;
    if (answer.status == SCSI_STATUS_GOOD) return std::nullopt;
    return LunFault{true,
                    fmt::format("{} can't be reached at {}: nothing answers there.", address.what, address.portal)};
  }

  std::optional<LunFault> login(const std::atomic<bool>& stop) {
    Answer answer;
    Command pending = into(answer);
    if (iscsi_login_async(context, &Impl::step_ended, pending) != 0) {
      return LunFault{true, fmt::format("{} ({}) does not speak iSCSI as expected.", address.what, address.portal)};
    }
    if (auto late = wait(answer.ended, stop)) return late;
    if (answer.status == SCSI_STATUS_GOOD) return std::nullopt;
    const std::string text = iscsi_get_error(context);
    const auto says = [&text](const char* words) { return text.find(words) != std::string::npos; };
    if (says("uthentication") || says("uthorization") || says("CHAP"))
      return LunFault{false, fmt::format("{} ({}) refused the login: the CHAP user or secret is wrong, or it does not "
                                         "let the initiator {} in.",
                                         address.what, address.portal, address.initiator)};
    if (says("not found"))
      return LunFault{false, fmt::format("At {} there is no target {}.", address.portal, address.target)};
    return LunFault{!says("login reply"), fmt::format("{} ({}) refused the login.", address.what, address.portal)};
  }

  template <class Send>
  std::optional<LunFault> ask(const char* did, const std::atomic<bool>& stop, Send send,
                              const std::function<std::optional<LunFault>(scsi_task*)>& use) {
    for (int i = 0;; ++i) {
      bool ended = false;
      std::optional<LunFault> verdict;
      bool again = false;
      Command pending = command([&](int status, scsi_task* task) {
        ended = true;
        again = task && is(*task, SCSI_SENSE_UNIT_ATTENTION) && i < kMaxAttentions;
        if (status == SCSI_STATUS_GOOD && task) {
          verdict = use(task);
        } else if (task && is(*task, SCSI_SENSE_ILLEGAL_REQUEST)) {
          verdict = LunFault{false, fmt::format("{} ({}) has no disk at LUN {} of {} ({}).", address.what,
                                                address.portal, address.lun, address.target, reason(status, task))};
        } else {
          verdict = fault(did, status, task);
        }
      });
      not_sent(send(pending), pending);
      if (auto late = wait(ended, stop)) return late;
      if (!again) return verdict;
    }
  }

  std::optional<LunFault> find_shape(LunShape& shape, const std::atomic<bool>& stop) {
    const auto ready = [this](Command c) { return iscsi_testunitready_task(context, address.lun, &Impl::ended, c); };
    if (auto bad = ask("is not ready", stop, ready, [](scsi_task*) { return std::optional<LunFault>(); })) return bad;
    const auto capacity = [this](Command c) {
      return iscsi_readcapacity16_task(context, address.lun, &Impl::ended, c);
    };
    if (auto bad =
            ask("did not tell its size", stop, capacity, [&](scsi_task* task) { return take_capacity(task, shape); }))
      return bad;
    if (auto bad = ask_page("did not tell its limits", SCSI_INQUIRY_PAGECODE_BLOCK_LIMITS, stop,
                            [&](scsi_task* task) { take_limits(task, shape); }))
      return bad;
    if (auto bad = ask_page("did not tell its name", SCSI_INQUIRY_PAGECODE_DEVICE_IDENTIFICATION, stop,
                            [&](scsi_task* task) { shape.identity = designated_name(page_of(*task)); }))
      return bad;
    if (!shape.identity.empty()) return std::nullopt;
    return ask_page("did not tell its serial number", SCSI_INQUIRY_PAGECODE_UNIT_SERIAL_NUMBER, stop,
                    [&](scsi_task* task) { shape.identity = serial_name(page_of(*task)); });
  }
  /// Passing faults only: an old unit does not have every page.
  std::optional<LunFault> ask_page(const char* did_not, int code, const std::atomic<bool>& stop,
                                   const std::function<void(scsi_task*)>& use) {
    const auto page = [this, code](Command c) {
      return iscsi_inquiry_task(context, address.lun, 1, code, kPageBytes, &Impl::ended, c);
    };
    auto bad = ask(did_not, stop, page, [&](scsi_task* task) {
      use(task);
      return std::optional<LunFault>();
    });
    return bad && bad->passing ? bad : std::nullopt;
  }
  static std::span<const std::uint8_t> page_of(const scsi_task& task) {
    return {task.datain.data, static_cast<std::size_t>(std::max(task.datain.size, 0))};
  }
  std::optional<LunFault> take_capacity(scsi_task* task, LunShape& shape) const {
    const auto* told = static_cast<scsi_readcapacity16*>(scsi_datain_unmarshall(task));
    if (!told || told->block_length == 0 || told->returned_lba == ~std::uint64_t{0})
      return LunFault{false, fmt::format("{} ({}) told a size that makes no sense.", address.what, address.portal)};
    if (told->returned_lba >= static_cast<std::uint64_t>(kMaxVolumeSize) / told->block_length)
      return LunFault{false, fmt::format("{} ({}) is larger than 64 TiB, the most that a volume can be.", address.what,
                                         address.portal)};
    shape.block_size = told->block_length;
    shape.size = (told->returned_lba + 1) * told->block_length;
    shape.tells_holes = told->lbpme && told->lbprz;
    return std::nullopt;
  }
  static void take_limits(scsi_task* task, LunShape& shape) {
    const auto* told = static_cast<scsi_inquiry_block_limits*>(scsi_datain_unmarshall(task));
    if (told && told->max_xfer_len != 0 && told->max_xfer_len < (1u << 20))
      shape.max_transfer = told->max_xfer_len * shape.block_size;
  }
};

LunSession::LunSession(const LunAddress& address, std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->address = address;
}
LunSession::~LunSession() = default;

std::expected<std::unique_ptr<LunSession>, LunFault> LunSession::open(const LunAddress& address,
                                                                      const std::atomic<bool>& stop) {
  std::unique_ptr<LunSession> session(new LunSession(address, std::make_unique<Impl>()));
  Impl& impl = *session->impl_;
  impl.context = iscsi_create_context(address.initiator.c_str());
  if (!impl.context) return std::unexpected(LunFault{true, "There is not enough memory for an iSCSI session."});
  iscsi_set_noautoreconnect(impl.context, 1);
  iscsi_set_timeout(impl.context, kCommandSeconds);
  iscsi_set_session_type(impl.context, ISCSI_SESSION_NORMAL);
  iscsi_set_targetname(impl.context, address.target.c_str());
  iscsi_set_header_digest(impl.context, ISCSI_HEADER_DIGEST_NONE_CRC32C);
  if (address.chap)
    iscsi_set_initiator_username_pwd(impl.context, address.chap->user.c_str(), address.chap->secret.c_str());
  if (auto bad = impl.connect(stop)) return std::unexpected(std::move(*bad));
  if (auto bad = impl.login(stop)) return std::unexpected(std::move(*bad));
  if (auto bad = impl.find_shape(session->shape_, stop)) return std::unexpected(std::move(*bad));
  return session;
}

void LunSession::read(std::uint64_t offset, std::span<std::byte> into, Done done) {
  const std::uint64_t block = shape_.block_size;
  auto pending =
      impl_->command([this, offset, size = into.size(), done = std::move(done)](int status, scsi_task* task) {
        if (status == SCSI_STATUS_GOOD && task && task->residual_status == SCSI_RESIDUAL_NO_RESIDUAL)
          return done(std::nullopt);
        if (status == SCSI_STATUS_GOOD)
          return done(LunFault{false, impl_->address.what + " gave less than was asked for."});
        done(impl_->fault(fmt::format("could not be read at byte {} ({} bytes)", offset, size), status, task));
      });
  scsi_task* task =
      iscsi_read16_task(impl_->context, impl_->address.lun, offset / block, static_cast<std::uint32_t>(into.size()),
                        static_cast<int>(block), 0, 0, 0, 0, 0, &Impl::ended, pending);
  if (task)
    scsi_task_add_data_in_buffer(task, static_cast<int>(into.size()), reinterpret_cast<unsigned char*>(into.data()));
  impl_->not_sent(task, pending);
}

void LunSession::write(std::uint64_t offset, std::span<const std::byte> from, Done done) {
  const std::uint64_t block = shape_.block_size;
  auto pending = impl_->command([this, offset, done = std::move(done)](int status, scsi_task* task) {
    if (status == SCSI_STATUS_GOOD) return done(std::nullopt);
    done(impl_->fault(fmt::format("could not be written at byte {}", offset), status, task));
  });
  // libiscsi does not write to what it sends; its signature does not say so.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(from.data()));
  impl_->not_sent(iscsi_write16_task(impl_->context, impl_->address.lun, offset / block, data,
                                     static_cast<std::uint32_t>(from.size()), static_cast<int>(block), 0, 0, 0, 0, 0,
                                     &Impl::ended, pending),
                  pending);
}

void LunSession::write_zeroes(std::uint64_t offset, std::uint64_t length, Done done) {
  static constexpr std::array<unsigned char, 4096> kZeroes{};
  const std::uint64_t now = std::min(length, kMaxZeroes), block = shape_.block_size;
  auto pending =
      impl_->command([this, offset, length, now, done = std::move(done)](int status, scsi_task* task) mutable {
        if (status == SCSI_STATUS_GOOD && now < length)
          return write_zeroes(offset + now, length - now, std::move(done));
        if (status == SCSI_STATUS_GOOD) return done(std::nullopt);
        done(impl_->fault(fmt::format("could not be zeroed at byte {}", offset), status, task));
      });
  impl_->not_sent(iscsi_writesame16_task(impl_->context, impl_->address.lun, offset / block,
                                         const_cast<unsigned char*>(kZeroes.data()), static_cast<std::uint32_t>(block),
                                         static_cast<std::uint32_t>(now / block), 0, shape_.tells_holes ? 1 : 0, 0, 0,
                                         &Impl::ended, pending),
                  pending);
}

void LunSession::flush(Done done) {
  auto pending = impl_->command([this, done = std::move(done)](int status, scsi_task* task) {
    if (status == SCSI_STATUS_GOOD) return done(std::nullopt);
    done(impl_->fault("could not make durable what was written", status, task));
  });
  impl_->not_sent(iscsi_synchronizecache16_task(impl_->context, impl_->address.lun, 0, 0, 0, 0, &Impl::ended, pending),
                  pending);
}

void LunSession::find_hole(std::uint64_t offset, std::function<void(std::optional<Hole>)> done) {
  auto pending = impl_->command([this, offset, done = std::move(done)](int status, scsi_task* task) {
    const auto* told =
        status == SCSI_STATUS_GOOD && task ? static_cast<scsi_get_lba_status*>(scsi_datain_unmarshall(task)) : nullptr;
    // The first run holds the block that was asked for, and may begin before it.
    if (!told || told->num_descriptors == 0) return done(std::nullopt);
    const auto& run = told->descriptors[0];
    const std::uint64_t block = shape_.block_size, end = (run.lba + run.num_blocks) * block;
    if (run.lba * block > offset || end <= offset) return done(std::nullopt);
    done(Hole{is_hole(run), std::min(end, shape_.size)});
  });
  impl_->not_sent(iscsi_get_lba_status_task(impl_->context, impl_->address.lun, offset / shape_.block_size,
                                            kStatusBytes, &Impl::ended, pending),
                  pending);
}

int LunSession::descriptor() const { return iscsi_get_fd(impl_->context); }
short LunSession::wanted() const { return static_cast<short>(iscsi_which_events(impl_->context)); }
std::optional<LunFault> LunSession::turn(short came) { return impl_->turn(came); }

}  // namespace lockstep::mgmt
