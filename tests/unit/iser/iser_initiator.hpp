#pragma once
// An initiator as Linux's ib_iser is one: receives of 128 bytes of data, keys that the target's answer is to
// invalidate, immediate data of up to 8 KiB and the rest of a write's in memory for the target to read. What it finds
// against the rules is in `faults`, in sentences.
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/iscsi/login_initiator.hpp"
#include "engine/iser/format.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "tests/support/rdma/fake_fabric.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace lockstep::test {

struct Answer {
  iscsi::Bhs header{};
  std::vector<std::byte> data;  ///< of the PDU
  std::optional<std::uint32_t> invalidated;
  [[nodiscard]] iscsi::Opcode opcode() const { return iscsi::opcode_of(static_cast<std::uint8_t>(header[0])); }
  template <class T>
  [[nodiscard]] T as() const {
    return iscsi::header_as<T>(header);
  }
};

/// How an initiator lets a target read and write its memory. A seam's own windows are of the link's domain; the fake
/// grants what an initiator's device would.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  [[nodiscard]] virtual rdma::Domain domain() const = 0;
  [[nodiscard]] virtual rdma::Remote open(rdma::QueuePair& pair, std::span<std::byte> memory, rdma::Access access) = 0;
  /// If it is open. No pair: it was closed.
  virtual void shut(rdma::QueuePair* pair, std::uint32_t key) = 0;
};

class IserInitiator final : private rdma::QueuePairUser {
 public:
  struct Options {
    bool invalidates = true;         ///< as ib_iser; libiscsi does not
    std::uint32_t immediate = 8192;  ///< bytes that come with a write
    std::string target{};
    bool logs_in = true;
    bool discovers = false;  ///< a discovery session
    std::string from{};      ///< "10.0.0.9:0"; empty: the address that it calls
    std::uint8_t port = 0;   ///< of its ISID: sessions of one port replace one another
  };
  struct Io {
    bool write = false;
    std::uint32_t bytes = 0;
    engine::Buffer memory;
    std::optional<std::uint32_t> key;
    std::function<void(const Answer&)> done;
  };

  IserInitiator(FakeFabric& fabric, engine::Clock& clock, engine::BufferPool& pool, Options options);
  IserInitiator(rdma::Fabric& fabric, std::unique_ptr<rdma::Completions> completions,
                std::unique_ptr<SharedMemory> shared, engine::BufferPool& pool, Options options);
  ~IserInitiator();

  void call(const std::string& address);
  [[nodiscard]] bool logged_in() const { return logged_in_; }
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] bool closed() const { return closed_; }
  /// Commands that may be sent now.
  [[nodiscard]] bool has_window() const;
  [[nodiscard]] std::size_t under_way() const { return ios_.size(); }

  /// The tag. `memory` has the data of a write; a read's comes there.
  std::uint32_t command(std::uint8_t opcode, std::uint32_t lba, std::uint32_t bytes, bool write, engine::Buffer memory,
                        std::function<void(const Answer&)> done);
  void send(iscsi::Bhs header, const iser::Tagged& tagged = {}, std::span<const std::byte> data = {},
            std::span<const std::byte> ahs = {});
  /// Bytes as they are.
  void send_raw(std::span<const std::byte> bytes);
  [[nodiscard]] engine::Buffer memory(std::size_t bytes) { return pool_.allocate(bytes); }
  [[nodiscard]] Io& io(std::uint32_t tag) { return ios_.at(tag); }
  void forget(std::uint32_t tag);
  void close();

  std::function<void(const Answer&)> on_other;  ///< what is no answer to a command
  std::vector<std::string> faults;
  std::uint32_t next_tag = 1;
  iscsi::Serial cmd_sn{1}, max_cmd_sn;
  iscsi::Parameters parameters;
  std::string login_error;

 private:
  void on_established(std::span<const std::byte> private_data) override;
  void on_completion(const rdma::Completion& completion) override;
  void on_lost(std::error_code why) override;

  void post(std::uint32_t slot);
  void log_in(iscsi::InitiatorLogin::Step step);
  void take(const Answer& answer);
  void answered(const Answer& answer);
  void answer_ping(const iscsi::NopInHeader& ping);
  void shut(const Io& io);

  static constexpr std::uint32_t kReceives = 128;
  static constexpr std::size_t kReceive = 16384;  // bytes of memory for one

  rdma::Fabric& fabric_;
  std::unique_ptr<SharedMemory> shared_;
  engine::BufferPool& pool_;
  Options options_;
  SeededRandom random_{77};
  std::unique_ptr<rdma::Completions> completions_;
  std::unique_ptr<rdma::QueuePair> pair_;
  engine::Buffer receives_;
  std::map<std::uint64_t, engine::Buffer> sends_;
  std::map<std::uint32_t, Io> ios_;
  std::optional<iscsi::InitiatorLogin> login_;
  std::uint64_t last_send_ = 0;
  bool target_invalidates_ = false;
  bool logged_in_ = false, lost_ = false, closed_ = true;
};

}  // namespace lockstep::test
